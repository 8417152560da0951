"""Scaling of runs on Ray actors, on one machine, with an engine that waits as long as a real engine took.

    python -m bench.scale                      # 1 to 16 actors, and rollouts during updates: about five minutes
    python -m bench.scale --parts asynchrony   # one of scaling, asynchrony
    python -m bench.scale --quick              # up to 2 actors, short rollouts

Actors, journal, driver and messages are real; only sampling is simulated. The figures are the cost of Ray and the
driver, not the speed of an engine.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.scale import asynchronous, rollout_scaling, simulated_engine
from bench.scale.simulated_pool import SimulatedPool, config, simulated_pool
from trainer.config.run import RunConfig
from trainer.studies import machine

ACTORS = (1, 2, 4, 8, 16)
PARTS = ("scaling", "asynchrony")
_ASYNCHRONOUS_ACTORS = 4
_ITERATIONS = 16
"""Iterations in both modes: nothing overlaps with the first rollout, so n take (n + 1) / 2n of the time at best."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--actors", type=int, default=ACTORS[-1], help="largest number of actors")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser.parse_args()


def _scaling(pool: SimulatedPool, settings: RunConfig, numbers: list[int]) -> list[dict[str, Any]]:
    results: list[rollout_scaling.ScalingResult] = []
    for index, number in enumerate(numbers):
        results.append(rollout_scaling.measure(pool, settings, number, first=10 * index + 1))
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


def main() -> None:
    """Measure the parts that the command line names, or all."""
    arguments = _arguments()
    most = min(2, arguments.actors) if arguments.quick else arguments.actors
    if "scaling" not in arguments.parts:
        most = min(most, _ASYNCHRONOUS_ACTORS)
    figures: dict[str, Any] = {"machine": machine.describe(), "latencies": simulated_engine.description()}
    print("\n".join(figures.values()), flush=True)
    settings = config(most, turns=1 if arguments.quick else 3)
    with simulated_pool(settings) as pool:
        if "scaling" in arguments.parts:
            figures["scaling"] = _scaling(pool, settings, [number for number in ACTORS if number <= most])
        if "asynchrony" in arguments.parts:
            iterations = 4 if arguments.quick else _ITERATIONS
            figures["asynchrony"] = _asynchrony(pool, min(most, _ASYNCHRONOUS_ACTORS), iterations)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
