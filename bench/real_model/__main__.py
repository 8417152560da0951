"""A model of 135 million parameters on one core, compared with its peers: `python -m bench.real_model`.

Runs three comparisons with the shape of SmolLM2-135M, random weights and one thread: sampling against transformers'
`generate`, an update against plain PyTorch, and a whole iteration against TRL's GRPOTrainer, which must be installed.
Each takes turns with its peers for several rounds and prints medians. Ratios of processor time also mean something on a
busy machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

SHAPE = ("--shape", "smollm2-135m", "--threads", "1")
PARTS = {
    "sampling": ("bench.rollout", "--trajectories", "16", "--turns", "1"),
    "update": ("bench.iteration", "--update", "--rows", "8", "--read", "106", "--written", "26"),
    "iteration": ("bench.iteration", "--rows", "24", "--read", "106", "--written", "27"),
}
"""Name → module and arguments."""


def main() -> int:
    """Run the parts one after the other. Returns 1 if one failed."""
    parser = argparse.ArgumentParser(prog="bench.real_model", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds of each comparison")
    parser.add_argument("--dtype", default="float32", help="of updates and iterations (default: as in the presets)")
    options = parser.parse_args()
    failed = 0
    for name in options.parts.split(","):
        module, *arguments = PARTS[name]
        precision = () if name == "sampling" else ("--dtype", options.dtype)
        command = [sys.executable, "-m", module, *arguments, *precision, *SHAPE, "--rounds", str(options.rounds)]
        print(f"\n{name}: {' '.join(command[1:])}", flush=True)
        failed += subprocess.run(command).returncode != 0
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
