"""Run PyTorch's own test files on functrace.torch and on PyTorch, and print what differs.

    python -m tests.peers.torch.suite DIRECTORY test_autograd.py nn/test_pooling.py …

DIRECTORY is PyTorch's ``test/``. It comes with PyTorch's sources only: the source package
``pytorch`` of a Debian mirror holds it, for example (``pool/main/p/pytorch/*.orig.tar.xz``).

A test counts if PyTorch passes it here, without a GPU. Both sides run it with the test utilities
in ``utilities/``, which replace ``torch.testing._internal``; what remains of that package is read
from the installed PyTorch. Modules that a test saves whole are copied instead, since
functrace.torch saves state_dicts only.

Options: ``-k WORD`` runs the tests whose names contain it, and prints their tracebacks; ``--json
FILE`` writes all results.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

SIDES = ("pytorch", "here")
ROOT = Path(__file__).parents[4]

Results = dict[str, tuple[str, str]]
"""By test: ``passed``, ``failed`` or ``skipped``, and the traceback or the reason."""


def run(side: str, directory: Path, file: str, word: str = "", timeout: int = 1800) -> Results:
    """Run the tests of a file on one side, in a process of its own.

    Raises:
        RuntimeError: if the process ends before its last test, with what it printed.
    """
    with tempfile.TemporaryDirectory() as place:
        output = Path(place) / "results.json"
        command = [sys.executable, "-W", "ignore", "-m", "tests.peers.torch.suite.child"]
        command += [side, str(directory / file), str(output), word]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{file} on {side}:\n{done.stderr[-3000:]}")
        return {name: (kind, text) for name, (kind, text) in json.loads(output.read_text()).items()}


def differences(theirs: Results, ours: Results) -> tuple[int, dict[str, list[str]]]:
    """Return how many tests count, and those that differ, by the last line of their tracebacks."""
    counted = [name for name, (kind, _) in theirs.items() if kind == "passed"]
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in counted:
        kind, text = ours.get(name, ("failed", "the test does not exist here"))
        if kind != "passed":
            found[(text.strip() or kind).splitlines()[-1][:160]].append(name)
    return len(counted), found


def main() -> int:
    """Run the command; the exit code is 0 if everything is the same."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.torch.suite")
    parser.add_argument("directory", type=Path)
    parser.add_argument("files", nargs="+")
    parser.add_argument("-k", dest="word", default="")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    everything, is_same = {}, True
    for file in given.files:
        try:
            theirs, ours = (run(side, given.directory, file, given.word) for side in SIDES)
        except RuntimeError as error:
            print(error, flush=True)
            is_same = False
            continue
        everything[file] = dict(zip(SIDES, (theirs, ours)))
        counted, different = differences(theirs, ours)
        left = sum(map(len, different.values()))
        is_same &= not left
        print(f"{file}: {counted - left} of {counted}", flush=True)
        for line, names in sorted(different.items(), key=lambda pair: -len(pair[1])):
            print(f"  {len(names):4} {line}  ({names[0]})")
            if given.word:
                print(*(ours[name][1] for name in names if name in ours), sep="\n")
        if given.json:
            given.json.write_text(json.dumps(everything, indent=1))
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
