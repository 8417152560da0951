"""Faults that the detector names in recorded runs, judged again from their metrics.

    python -m bench.learning --preset bandit-starpo_s-pocket --preset … --seeds 6 --out RUNS
    python -m bench.faults RUNS

Runs that worked should have none: what is named is a false alarm, or something nobody noticed. Reads every
journal.jsonl, also compressed, below the given folders, and prints a line for each run with a fault and a summary with
Wilson's interval.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

from trainer.diagnostics.run_faults import RunFaults
from trainer.journal import reader
from trainer.journal.events import Fault, Metrics, RunStarted
from trainer.metrics.statistics import wilson_interval


def journals(folders: list[Path]) -> Iterator[Path]:
    """Yield the journals below the folders, in order."""
    for folder in folders:
        yield from sorted(path for path in folder.rglob("*.jsonl*") if path.name.endswith((".jsonl", ".jsonl.gz")))


def named(journal: Path) -> tuple[int, list[Fault]]:
    """Return the number of training iterations of a run, and each fault once, as it was first named."""
    detector, iterations = RunFaults(), 0
    found: dict[str, Fault] = {}
    with gzip.open(journal) if journal.suffix == ".gz" else journal.open("rb") as lines:
        for event in reader.read_lines(lines):
            if isinstance(event, RunStarted):
                detector = RunFaults(event.config.get("rollout", {}).get("max_staleness", 0))
            elif isinstance(event, Metrics) and "reward/mean" in event.values and event.iteration > 0:
                iterations += 1
                changed = detector.update(event.iteration, event.values)
                for fault in changed.present if changed else ():
                    found.setdefault(fault.cause, fault)
    return iterations, list(found.values())


def main() -> None:
    """Print the faults of each run and the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    runs = sick = iterations = 0
    for journal in journals(parser.parse_args().folders):
        count, faults = named(journal)
        runs, iterations, sick = runs + 1, iterations + count, sick + bool(faults)
        for fault in faults:
            print(f"{journal}: {fault.cause} since iteration {fault.since} of {count}. {fault.text}")
    if runs:
        low, high = wilson_interval(sick, runs)
        print(f"{sick} of {runs} runs ({iterations} iterations) have a fault; 95% interval {low:.1%} to {high:.1%}")


if __name__ == "__main__":
    main()
