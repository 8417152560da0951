"""Learning curves of presets with several seeds: success before and after, a plot, and the journals.

    python -m bench.learning --seeds 3 --picture docs/images/learning.svg
    python -m bench.learning --preset bandit-starpo_s-qwen2.5-0.5b --preset frozen_lake-starpo_s-qwen2.5-0.5b \\
        --seeds 3 --jobs 6 --seconds 540 --set policy.device=cuda --archive OUT

Every seed of a preset is a separate run through the command line. With several `--jobs` they run in parallel, on a GPU
under NVIDIA's Multi-Process Service if the machine has it. After `--seconds`, runs that are still training end with a
checkpoint; the same command with the same `--out` continues them.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from bench.learning import curves, side_by_side
from bench.learning.side_by_side import Job
from trainer.config.files import load_preset, with_overrides


def planned(presets: list[str], seeds: int, settings: list[str], folder: Path) -> list[Job]:
    """Return the runs in order: the first seed of every preset, then the second. Raises ValueError for bad settings."""
    for preset in presets:
        with_overrides(load_preset(preset), settings)
    jobs = []
    for seed in range(seeds):
        for preset in presets:
            arguments = ["--preset", preset]
            for pair in [*settings, f"seed={seed}"]:
                arguments += ["--set", pair]
            name = f"seed-{seed}" if len(presets) == 1 else f"{preset}/seed-{seed}"
            jobs.append(Job(name, tuple(arguments), folder / name))
    return jobs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", action="append", help="once for each; default: sokoban-pocket")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads of each run (default: as its settings say)")
    parser.add_argument("--seconds", type=float, help="stop runs that are still training after this time")
    parser.add_argument("--out", type=Path, help="keep the run folders in this directory")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--archive", type=Path, help="write the compressed journals to this directory, in parts")
    parser.add_argument("--quick", action="store_true", help="three iterations and a small evaluation, as a smoke test")
    return parser


def main() -> int:
    """Run the presets, print a line for each run, write picture, JSON and archive."""
    parser = _parser()
    arguments = parser.parse_args()
    settings = [*arguments.set]
    if arguments.quick:
        settings += ["iterations=3", "evaluation.prompts=32", "evaluation.every=0"]
    if arguments.threads:
        settings.append(f"policy.threads={arguments.threads}")
    began = time.monotonic()
    deadline = None if arguments.seconds is None else began + arguments.seconds
    folder = arguments.out or Path(tempfile.mkdtemp(prefix="echoscope-learning-"))
    presets = arguments.preset or ["sokoban-pocket"]
    try:
        jobs = planned(presets, arguments.seeds, settings, folder)
    except ValueError as error:
        parser.error(str(error))
    if arguments.jobs > 1:
        with side_by_side.multi_process_service() as shared:
            print(f"{arguments.jobs} runs at a time{', with MPS' if shared else ''}", flush=True)
            problems = side_by_side.run(jobs, arguments.jobs, deadline, arguments.threads or 1)
    else:
        problems = side_by_side.run(jobs, 1, deadline, arguments.threads)
    runs = [curves.read(job.name, job.folder) for job in jobs]
    for run in runs:
        print(run.summary())
    print(f"{time.monotonic() - began:.0f} s in all")
    title = f"{', '.join(presets)}: success on the evaluation puzzles, T = 0.5"
    _write(arguments, title, runs, jobs)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _write(arguments: argparse.Namespace, title: str, runs: list[curves.Learned], jobs: list[Job]) -> None:
    """Write the picture, JSON and archive that the arguments request."""
    if arguments.picture:
        arguments.picture.parent.mkdir(parents=True, exist_ok=True)
        arguments.picture.write_text(curves.picture(runs, title), encoding="utf-8")
    if arguments.json:
        facts = {"machine": platform.processor() or platform.machine(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps({**facts, "runs": [asdict(run) for run in runs]}, indent=2) + "\n")
    if arguments.archive:
        for path in side_by_side.archive(jobs, arguments.archive):
            print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    raise SystemExit(main())
