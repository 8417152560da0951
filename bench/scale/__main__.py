"""How runs on Ray actors scale, on one machine, with an engine that waits as long as a real one took.

    python -m bench.scale                  # 1 to 16 actors, overlap with updates, weights: about ten minutes
    python -m bench.scale --parts weights  # one of scaling, asynchrony, weights
    python -m bench.scale --quick          # up to 2 actors, short rollouts
    python -m bench.scale kills --kills 20 --folder F     # runs on three nodes whose processes are killed at random
    python -m bench.scale equality --folder F             # the pocket preset on actors against one process
    python -m bench.scale record JOURNAL --source TEXT    # take the latencies of another run

Actors, journal, driver, messages and weights are those of a real run; only sampling is simulated. So its figures say
what Ray and the driver cost, not how fast an engine is. Runs with kills sample with the pocket policy.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.scale import asynchronous, equality, random_kills, recorded_latencies, rollout_scaling, weight_transfer
from bench.scale.simulated_pool import SimulatedPool, config, simulated_pool
from trainer.config.run import RunConfig
from trainer.studies import machine

ACTORS = (1, 2, 4, 8, 16)
PARTS = ("scaling", "asynchrony", "weights")
_ASYNCHRONOUS_ACTORS = 4
_ITERATIONS = 16
"""Of both modes: nothing overlaps with the first rollout, so n iterations take (n + 1) / 2n of the time at best."""
_EQUAL_ITERATIONS = 5
_SIZES = (500_000, 10_000_000, 60_000_000)
"""Parameters; the pocket policy has 480,000."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=("figures", "kills", "equality", "record"), default="figures")
    parser.add_argument("journal", nargs="?", type=Path, help="of the run whose latencies are recorded")
    parser.add_argument("--source", default="a run of one's own", help="description of that run")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--actors", type=int, default=ACTORS[-1], help="largest number of actors")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kills", type=int, default=20, help="number of kills")
    parser.add_argument("--folder", type=Path, help="for the runs that are compared")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and kinds of kills")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser.parse_args()


def _figures(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the parts that the command line names, or all."""
    most = min(2, arguments.actors) if arguments.quick else arguments.actors
    if "scaling" not in arguments.parts:
        most = min(most, _ASYNCHRONOUS_ACTORS)
    figures: dict[str, Any] = {"machine": machine.describe(), "latencies": recorded_latencies.description()}
    print("\n".join(figures.values()), flush=True)
    settings = config(most, turns=1 if arguments.quick else 3)
    with simulated_pool(settings) as pool:
        if "scaling" in arguments.parts:
            figures["scaling"] = _scaling(pool, settings, [number for number in ACTORS if number <= most])
        if "asynchrony" in arguments.parts:
            figures["asynchrony"] = _asynchrony(
                pool, min(most, _ASYNCHRONOUS_ACTORS), 4 if arguments.quick else _ITERATIONS
            )
        if "weights" in arguments.parts:
            figures["weights"] = _weights(_SIZES[:2] if arguments.quick else _SIZES)
    return figures


def _scaling(pool: SimulatedPool, settings: RunConfig, numbers: list[int]) -> list[dict[str, Any]]:
    results: list[rollout_scaling.ScalingResult] = []
    for place, number in enumerate(numbers):
        results.append(rollout_scaling.measure(pool, settings, number, first=10 * place + 1))
        print(f"\n{rollout_scaling.table(results)}", flush=True)
    return [asdict(result) for result in results]


def _asynchrony(pool: SimulatedPool, actors: int, iterations: int) -> dict[str, Any]:
    settings = config(actors, turns=1, iterations=iterations)
    overlap = asynchronous.measure(pool, settings, actors, first=1000, scale=0.5)
    print(
        f"\n{iterations} iterations, rollout and update of {overlap.update_seconds:.1f} s each: in turn "
        f"{overlap.synchronous:.1f} s, overlapped {overlap.asynchronous:.1f} s, {overlap.share:.0%}",
        flush=True,
    )
    return asdict(overlap)


def _weights(sizes: Sequence[int]) -> list[dict[str, Any]]:
    results = [weight_transfer.measure(size) for size in sizes]
    print(f"\n{weight_transfer.table(results)}", flush=True)
    return [asdict(result) for result in results]


def main() -> None:
    """Run the part that the command line names."""
    arguments = _arguments()
    if arguments.what == "record":
        recorded_latencies.record(arguments.journal, arguments.source)
        print(recorded_latencies.description())
        return
    if arguments.what == "figures":
        figures = _figures(arguments)
        if arguments.json:
            arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
        return
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="echoscope-scale-"))
    if arguments.what == "equality":
        iterations = 2 if arguments.quick else _EQUAL_ITERATIONS
        faults, found = equality.measure(folder, iterations)
        print(equality.report(faults, found, iterations))
        sys.exit(bool(faults or equality.faults_in(found)))
    result = random_kills.measure(folder, arguments.kills, arguments.seed)
    print(f"\n{random_kills.table(result)}")
    sys.exit(bool(result.faults))


if __name__ == "__main__":
    main()
