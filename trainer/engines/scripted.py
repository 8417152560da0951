"""A sampler that plays given responses instead of a model's: for tests, and for playing recorded dialogues again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainer.engines.base import SampledResponse, SamplingParams, TokenListener


class ScriptedSampler:
    """A `Sampler` whose row r says `responses[r][t]` in its t-th turn, however often it is played.

    `read[r]` collects what row r of the latest session was given to read, turn by turn; `restarts[r]` the turns before
    which it was told to forget everything.
    """

    def __init__(self, responses: Sequence[Sequence[SampledResponse]]) -> None:
        self.responses = responses
        self.read: list[list[list[int]]] = []
        self.restarts: list[list[int]] = []

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> ScriptedSession:
        if len(seeds) > len(self.responses):
            raise ValueError(f"{len(seeds)} dialogues were asked for, but only {len(self.responses)} are scripted")
        self.read = [[] for _ in seeds]
        self.restarts = [[] for _ in seeds]
        return ScriptedSession(self)

    def weights_updated(self) -> None:
        """A script has no weights."""

    def sleep(self) -> None:
        """It holds no device."""

    def wake_up(self) -> None:
        """It holds no device."""

    def close(self) -> None:
        """It started nothing."""


class ScriptedSession:
    """Dialogues read from a script. See `trainer.engines.base.SamplingSession`."""

    def __init__(self, sampler: ScriptedSampler) -> None:
        self.sampler = sampler
        self.added: dict[int, list[int]] = {}

    def reset_row(self, row: int) -> None:
        self.sampler.restarts[row].append(len(self.sampler.read[row]))

    def append(self, row: int, ids: list[int]) -> None:
        self.added[row] = ids

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        """Rounds, as an engine has them that answers everybody before anybody is answered again."""
        waiting = dict(prompts)
        while waiting:
            for row, ids in waiting.items():
                yield row, self._say(row, ids)
            waiting, self.added = dict(sorted(self.added.items())), {}

    def _say(self, row: int, ids: list[int]) -> SampledResponse:
        turn = len(self.sampler.read[row])
        self.sampler.read[row].append(list(ids))
        if turn >= len(self.sampler.responses[row]):
            raise ValueError(f"the script of dialogue {row} ends after {turn} turns, but the episode goes on")
        return self.sampler.responses[row][turn]
