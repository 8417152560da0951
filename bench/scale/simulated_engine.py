"""Engine that waits instead of computing: every row's response takes a recorded latency, independent of other rows."""

from __future__ import annotations

import heapq
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainer.cluster.actor_description import ActorDescription
from trainer.cluster.rollout_actor import RolloutActor
from trainer.cluster.transfer import PackedWeights, PolicyFiles
from trainer.config.run import RunConfig
from trainer.engines import sampler_factory
from trainer.engines.sampler import SampledResponse, SamplingParams, TokenListener
from trainer.policy.load import Policy

SESSIONS = 4
"""Sessions that an actor plays over and over: one actor's rate is then every actor's fair share."""
LATENCIES = Path(__file__).with_name("latencies.json")
"""Seconds between the turns of a run, as quantiles, with their source and the number of responses."""
_RESPONSE = "I push the box up to the target and look again.</think><answer>Up</answer>"


def recorded() -> list[float]:
    """Return quantiles of the recorded latencies in seconds, ascending."""
    seconds: list[float] = json.loads(LATENCIES.read_text())["seconds"]
    return seconds


def description() -> str:
    """Describe source, median and tail of the recorded latencies."""
    data = json.loads(LATENCIES.read_text())
    seconds = data["seconds"]
    return (
        f"latencies of {data['responses']:,} responses, {data['source']}: median {seconds[500]:.2f} s, "
        f"90 % {seconds[900]:.2f} s, 99 % {seconds[990]:.2f} s, longest {seconds[-1]:.2f} s"
    )


class SimulatedSampler:
    """A `Sampler` with recorded latencies and always the same response.

    Args:
        response: ids of the response.
        scale: factor on the latencies.
    """

    def __init__(self, response: list[int], scale: float) -> None:
        self.response, self.scale = response, scale
        self.opened = 0

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> SimulatedSession:
        """Return a session of rows that wait independently of each other, as with continuous batching."""
        self.opened += 1
        latencies, number = recorded(), self.opened % SESSIONS
        rngs = [random.Random(f"{number} {row}") for row in range(len(seeds))]
        return SimulatedSession(self, [iter(lambda rng=rng: rng.choice(latencies), None) for rng in rngs])

    def weights_updated(self, version: int = 0) -> None:
        """Do nothing, as it has no weights."""

    def sleep(self) -> None:
        """Do nothing, as it uses no device."""

    def wake_up(self) -> None:
        """Do nothing, as it uses no device."""

    def close(self) -> None:
        """Do nothing, as it started nothing."""


class SimulatedSession:
    """See `trainer.engines.sampler.SamplingSession`."""

    def __init__(self, sampler: SimulatedSampler, latencies: Sequence[Iterator[float]]) -> None:
        self.sampler, self.latencies = sampler, latencies
        self._due: list[tuple[float, int]] = []  # moment on the monotonic clock, row

    def reset_row(self, row: int) -> None:
        """Do nothing, as it keeps no dialogues."""

    def append(self, row: int, ids: list[int]) -> None:
        """Begin the row's next response."""
        seconds = next(self.latencies[row]) * self.sampler.scale
        heapq.heappush(self._due, (time.monotonic() + seconds, row))

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        """Yield each response when its latency has passed."""
        for row, ids in prompts.items():
            self.append(row, ids)
        count = len(self.sampler.response)
        while self._due:
            due, row = heapq.heappop(self._due)
            time.sleep(max(0.0, due - time.monotonic()))
            yield row, SampledResponse(list(self.sampler.response), [-0.5] * count, [0.5] * count, ended=True)


class SimulatedActor(RolloutActor):
    """A rollout actor with the simulated engine.

    Args:
        config: the run's settings.
        scale: factor on the latencies.
    """

    scale = 1.0

    def prepare(self, files: PolicyFiles, weights: PackedWeights | None) -> ActorDescription:
        """Prepare as the parent does, with the simulated engine in place of transformers."""

        def simulated(config: RunConfig, policy: Policy, eos_id: int, folder: Path | None) -> SimulatedSampler:
            ids = policy.tokenizer.encode(_RESPONSE, add_special_tokens=False)
            return SimulatedSampler([*ids, eos_id], self.scale)

        sampler_factory.ENGINES["transformers"] = simulated
        return super().prepare(files, weights)

    def set_scale(self, scale: float) -> None:
        """Change the factor on the latencies of later responses."""
        sampler = self.sampler
        assert isinstance(sampler, SimulatedSampler)
        sampler.scale = scale
