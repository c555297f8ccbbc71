"""Record the names of PyTorch's autograd surface from the installed torch: ``python -m
tests.peers.torch.surface``.

Of a module: what it exports, the public functions and classes that it defines, and the private
names below, which PyTorch's
tests and other libraries reach for. Of the compiled half: what PyTorch's own Python files for
automatic differentiation ask
of it. Of tensors and of ``torch``: what code about gradients is written with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from tests.peers.torch.harness import VERSION, real_torch
from tests.torch.coverage import AREAS, RECORD, Parameters, has, parameters, place

FILES = (
    "autograd/__init__", "autograd/function", "autograd/graph", "autograd/functional",
    "autograd/gradcheck",
    "autograd/forward_ad", "autograd/grad_mode", "autograd/anomaly_mode", "autograd/variable",
    "utils/checkpoint",
    "utils/hooks",
)  # fmt: skip
"""Files that call the compiled half."""
ASKED = re.compile(
    r"torch\._C(?P<place>\._autograd|\._functions|)\.(?P<name>[A-Za-z]\w+|_(?!autograd\b|functions\b)\w+)"
)

NAMES = {
    "torch.autograd": """
        SavedTensor is_view_replay_enabled is_multithreading_enabled set_multithreading_enabled forward_ad function
        functional grad_mode graph _force_original_view_tracking _unsafe_preserve_version_counter
        _calculate_shape _make_grads
    """,
    "torch.autograd.function": "_SingleLevelFunction _iter_tensors _nested_map",
    "torch.autograd.forward_ad": "_current_level _is_fwd_grad_enabled _set_fwd_grad_enabled",
    "torch.autograd.functional": "_construct_standard_basis_for",
    "torch.utils.checkpoint": """
        _CachedTorchDispatchMode _CachingTorchDispatchMode _checkpoint_hook _recomputation_hook
        _StopRecomputationError _allowed_determinism_checks_to_fns _checkpoint_without_reentrant_generator
    """,
    "torch.utils.hooks": "unserializable_hook warn_if_has_hooks",
    "ctx": """
        save_for_backward saved_tensors mark_dirty mark_non_differentiable mark_shared_storage needs_input_grad
        save_for_forward saved_variables set_materialize_grads _materialize_non_diff_grads maybe_clear_saved_tensors
        to_save saved_for_forward dirty_tensors non_differentiable materialize_grads
    """,
    "node": """
        name metadata next_functions register_hook register_prehook requires_grad _register_hook_dict _input_metadata
        _sequence_nr _set_sequence_nr _saved_result _raw_saved_result
    """,
    "node of a Function": """
        name metadata next_functions register_hook register_prehook requires_grad _register_hook _register_hook_dict
        _input_metadata _sequence_nr _set_sequence_nr saved_tensors _raw_saved_tensors _forward_cls
        _is_pure_view apply apply_boxed apply_jvp _autograd_function_id _get_user_fn _compiled_autograd_key
        _get_compiled_autograd_symints _compiled_autograd_backward_state
    """,
    "torch.Tensor": """
        T mT H mH real imag grad grad_fn requires_grad is_leaf retains_grad output_nr data dtype device shape layout volatile
        _base _version _backward_hooks _post_accumulate_grad_hooks _is_view _grad _grad_fn grad_dtype
        is_nested is_quantized is_sparse is_inference
        backward register_hook register_post_accumulate_grad_hook requires_grad_ retain_grad detach detach_
        __bool__ __eq__ __float__ __getitem__ __int__ __pow__ __repr__ __rpow__ __setitem__
        abs add add_ as_strided as_strided_ bernoulli bernoulli_ bool chunk clone conj contiguous copy_ cos data_ptr
        diagonal dim div div_ double eq_ exp exp_ expand fill_ float ge gt item long masked_fill matmul mean mul mul_
        narrow ne neg new numel numpy pow prod relu relu_ repeat reshape resize_ resize_as_ select sin sin_ size split
        split_with_sizes squeeze squeeze_ storage storage_offset stride sub sum swapaxes_ swapdims_ t t_ to tolist
        transpose transpose_ unbind uniform_ unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_
        untyped_storage var view view_as zero_
    """,
    "torch": """
        BoolTensor LongTensor Tensor add all allclose arange cat cdouble cfloat channels_last complex complex128 complex64
        contiguous_format cos diagonal double empty empty_strided enable_grad exp eye float float32 float64 full half
        igamma index_reduce inf inference_mode int int16 int32 int64 int8 is_grad_enabled is_inference
        is_inference_mode_enabled isin load long max median min mm mul nan nanmedian no_grad ones ones_like pow rand
        rand_like randint randn randn_like real resolve_conj save scatter_reduce set_grad_enabled sgn signbit sin stack
        sum tensor var_mean view_as_complex view_as_real where zeros zeros_like set_warn_always is_warn_always_enabled
        set_anomaly_enabled is_anomaly_enabled is_anomaly_check_nan_enabled vmap
    """,
    "torch._C": """
        is_grad_enabled _WeakTensorRef _current_autograd_node _current_graph_task_execution_order _current_graph_task_id
        _is_fwd_grad_enabled _set_fwd_grad_enabled _will_engine_execute_node
    """,
    "torch._C._autograd": """
        SavedTensor _get_current_graph_task_keep_graph _saved_tensors_hooks_is_enabled _unsafe_set_version_counter
    """,
    "torch._C._functions": "AccumulateGrad CopySlices DelayedError Error UndefinedGrad ExpBackward0 MulBackward0",
}
"""Names that no module exports."""


def names(torch: ModuleType, area: str, owner: object) -> set[str]:
    """Return the names of an area."""
    found = set(NAMES.get(area, "").split())
    if isinstance(owner, ModuleType) and area.startswith(
        ("torch.autograd", "torch.utils", "torch.func")
    ):
        found |= set(getattr(owner, "__all__", ()))
        mine = (
            n
            for n, value in vars(owner).items()
            if getattr(value, "__module__", None) == owner.__name__
        )
        found |= {name for name in mine if not name.startswith("_")}
    if area.startswith("torch._C"):
        assert torch.__file__ is not None
        texts = [
            (Path(torch.__file__).parent / f"{file}.py").read_text(encoding="utf-8")
            for file in FILES
        ]
        found |= {
            m["name"]
            for text in texts
            for m in ASKED.finditer(text)
            if f"torch._C{m['place']}" == area
        }
    return found


def surface(torch: ModuleType) -> str:
    """Return the text of the record."""
    areas: dict[str, dict[str, Parameters]] = {}
    for area in AREAS:
        owner = place(torch, area)
        wanted = names(torch, area, owner)
        lost = {name for name in wanted if not has(owner, name)}
        assert not lost & set(NAMES.get(area, "").split()), f"PyTorch has no {lost} in {area}"
        areas[area] = {name: parameters(owner, name) for name in _in_order(wanted - lost)}
    lines = [f'{{"version": "{VERSION}", "areas": {{']
    for k, (area, found) in enumerate(areas.items()):
        lines += [f"{json.dumps(area)}: {{"]
        lines += [
            ",\n".join(f"{json.dumps(name)}: {json.dumps(given)}" for name, given in found.items())
        ]
        lines += ["}," if k + 1 < len(areas) else "}"]
    return "\n".join([*lines, "}}"]) + "\n"


def _in_order(found: Iterable[str]) -> list[str]:
    return sorted(found, key=lambda name: (name.startswith("_"), name.lower(), name))


if __name__ == "__main__":
    RECORD.write_text(surface(real_torch()), encoding="utf-8")
