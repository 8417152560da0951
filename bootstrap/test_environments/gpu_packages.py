"""Python for the tests on a GPU: this one if it has what they need, so that its CUDA build of PyTorch is kept."""

from __future__ import annotations

import subprocess
import sys

NEEDED = ("torch", "transformers", "accelerate", "peft", "pydantic", "gymnasium", "numba", "pytest")
_PROBE = """
import importlib.util, sys
missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
if not missing:
    import torch
    missing = [] if torch.version.cuda else ["a CUDA build of torch"]
print(", ".join(missing))
"""


def missing(python: str = sys.executable) -> str:
    """What a Python lacks for the tests on a GPU, separated by commas; empty if it lacks nothing."""
    done = subprocess.run([python, "-c", _PROBE, *NEEDED], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "a working torch"
