"""Throughput of 1 to 16 simulated actors, and each trajectory's cost for the driver."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

from bench.scale.simulated_pool import SimulatedPool, request
from trainer.config.run import RunConfig

REQUESTS = 2
"""Measured requests, after one that fills all actors."""


@dataclass(frozen=True)
class ScalingResult:
    """Figures of one number of actors.

    Attributes:
        tokens_per_second: total of all actors.
        driver_ms: CPU time of the driver per trajectory.
        ray_ms: CPU time of Ray's processes per trajectory.
        trajectories_per_minute: trajectories played per minute.
    """

    actors: int
    tokens_per_second: float
    driver_ms: float
    ray_ms: float
    trajectories_per_minute: float

    @property
    def driver_limit(self) -> float:
        """Return the trajectories per minute at which the driver would use one core."""
        return 60_000 / self.driver_ms


def measure(pool: SimulatedPool, settings: RunConfig, actors: int, first: int) -> ScalingResult:
    """Play requests of two sessions per actor that follow each other without a pause, as with max_staleness above 0.

    Args:
        first: an iteration number that no request had so far.
    """
    pool.use(actors)
    last = first + REQUESTS + 1  # still played when the measured ones are finished: no actor idles at their end
    for iteration in range(first, last + 1):
        pool.submit(request(settings, iteration, 2 * actors))
    pool.collect(first, _ignore)
    began, driver, ours = time.monotonic(), time.process_time(), _ray_seconds()
    tokens = trajectories = 0
    for iteration in range(first + 1, first + REQUESTS + 1):
        played = pool.collect(iteration, _ignore)
        tokens += sum(trajectory.tokens for trajectory in played)
        trajectories += len(played)
    passed = time.monotonic() - began
    driver, ours = time.process_time() - driver, _ray_seconds() - ours
    pool.abandon()
    return ScalingResult(
        actors=actors,
        tokens_per_second=tokens / passed,
        driver_ms=1000 * driver / trajectories,
        ray_ms=1000 * ours / trajectories,
        trajectories_per_minute=60 * trajectories / passed,
    )


def table(results: list[ScalingResult]) -> str:
    """Return the results as Markdown; linear is the rate of the smallest number of actors, per actor."""
    lines = [
        "| actors | tokens/s | of linear | driver, CPU ms per trajectory | Ray, CPU ms | trajectories per minute |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        share = relative(result, results[0])
        lines.append(
            f"| {result.actors} | {result.tokens_per_second:,.0f} | {share:.0%} | {result.driver_ms:.1f} | "
            f"{result.ray_ms:.1f} | {result.trajectories_per_minute:,.0f} |"
        )
    busiest = results[-1]
    lines.append(
        f"\nOne core of the driver carries {busiest.driver_limit:,.0f} trajectories per minute at "
        f"{busiest.driver_ms:.1f} ms."
    )
    return "\n".join(lines)


def relative(result: ScalingResult, smallest: ScalingResult) -> float:
    """Return the share of linear scaling from the smallest number of actors."""
    return result.tokens_per_second / (smallest.tokens_per_second / smallest.actors * result.actors)


def _ray_seconds() -> float:
    """Return the CPU seconds so far of Ray's processes other than actors."""
    seconds = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if not process.name().startswith("ray::"):
                times = process.cpu_times()
                seconds += times.user + times.system
        except psutil.Error:
            continue
    return seconds


def _ignore(done: int, tokens: int) -> None:
    """Show no progress."""
