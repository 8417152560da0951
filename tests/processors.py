"""The numeric tests under each instruction set and number of threads: `python -m tests.processors`.

Sums of floating-point numbers depend on both, so a tolerance that holds with one pair may fail with another.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence

# ATEN_CPU_CAPABILITY → the matching limits of oneDNN and MKL. A processor runs its own set and all before it.
INSTRUCTION_SETS = {
    "default": {"ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "avx512": {},
}
_ROOMS = "algorithms diagnostics distributed engines evaluation imitation learner loops memory policy rollout"
NUMERIC_TESTS = (
    "tests/golden",
    "tests/bench",
    *(f"tests/trainer/{room}" for room in _ROOMS.split()),
)
_CAPABILITY = "import torch; print(torch.backends.cpu.get_cpu_capability())"
_SUMMARY = re.compile(r"^=*\s*(?:\d+ \w+, )*\d+ (?:passed|failed|error).*$", re.MULTILINE)


def environments(sets: Sequence[str], threads: Sequence[int]) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Instruction set, threads and environment of each run; sets that this processor lacks are left out."""
    for name in sets:
        limits = os.environ | INSTRUCTION_SETS[name] | {"ATEN_CPU_CAPABILITY": name}
        command = [sys.executable, "-c", _CAPABILITY]
        capability = subprocess.run(command, env=limits, capture_output=True, text=True, check=True).stdout
        if capability.strip().lower() != name:
            print(f"{name}: not supported by this processor ({capability.strip()})", flush=True)
            continue
        for number in threads:
            yield name, number, limits | {"ECHOSCOPE_TEST_THREADS": str(number)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests once for each pair; returns the number of pairs with a failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.processors", description=__doc__)
    parser.add_argument("--sets", default=",".join(INSTRUCTION_SETS), help="instruction sets (default: %(default)s)")
    parser.add_argument("--threads", default="1,2,4", help="threads of PyTorch (default: %(default)s)")
    parser.add_argument("--processes", default="2", help="test processes at once (default: %(default)s)")
    parser.add_argument("tests", nargs="*", default=NUMERIC_TESTS, help="files, folders or test ids")
    options = parser.parse_args(arguments)
    failures = 0
    for name, number, environment in environments(
        options.sets.split(","), [int(n) for n in options.threads.split(",")]
    ):
        command = [sys.executable, "-m", "pytest", "-q", "-n", options.processes, "--tb=short", *options.tests]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        failures += result.returncode != 0
        summary = _SUMMARY.findall(result.stdout)
        print(f"{name}, {number} threads: {summary[-1].strip('= ') if summary else result.stderr[-2000:]}", flush=True)
        if result.returncode:
            print(result.stdout[-20000:], flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main())
