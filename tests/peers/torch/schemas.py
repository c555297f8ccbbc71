"""Write functrace/torch/schemas.txt from the installed PyTorch: ``python -m
tests.peers.torch.schemas``.

One line for each overload of ``aten`` that computes with tensors: all of those that a function of
the shim is called after, and of the others what has no ``out=`` and belongs to no kind of tensor
that there is not here.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import functrace.torch
from functrace.torch.dispatch.surface import TABLES

PATH = Path(functrace.torch.__file__).parent / "schemas.txt"
_ELSEWHERE = re.compile(
    r"^[A-Z]|^__|_hacked|quantize|qparams|mkldnn|cudnn|miopen|mkl|_foreach|_fused|_amp_|_mps|sparse|nested|cuda|_fw_|fbgemm|_test_|nnpack|sobol"
    r"|_use_|_functional_sym|vulkan|named|(?<!_to)_copy\b|_out\b|\.out\b|_for_test|philox|jagged|int4pack|int8pack|4bit|_cslt|coo_|csr_"
    r"|thnn|lstm|gru|rnn|_cast_|fake_|xla|batch_dim|foobar|spdiags|convert_weight|mps|wrapped_|_sparsity"
)
_NOT_OF_TENSORS = re.compile(
    r"Dimname|Stream|Storage|\bt\[\]|\bt\b(?=\))|Future|Dict\(|torch\.classes|DeviceMesh|\.\.\."
)


def names() -> set[str]:
    """Return the names of the shim's functions, and of their in-place forms."""
    listed = (name for table in TABLES for row in table for name in (row.name, *row.aliases))
    return {form for name in listed for form in (name, f"{name}_")}


def schemas() -> Iterator[str]:
    """Yield the lines, in order."""
    torch = importlib.import_module("torch")
    ours = names()
    for schema in sorted(map(str, torch._C._jit_get_all_schemas())):
        called, _, _ = schema.partition("(")
        namespace, _, full = called.partition("::")
        if namespace != "aten" or "Tensor" not in schema or _NOT_OF_TENSORS.search(schema):
            continue
        if full.partition(".")[0] in ours or not _ELSEWHERE.search(full):
            yield schema.removeprefix("aten::")


if __name__ == "__main__":
    PATH.write_text("\n".join(schemas()) + "\n")
