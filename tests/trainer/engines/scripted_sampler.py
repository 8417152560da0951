"""Sampler that replays scripted responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainer.engines.sampler import SampledResponse, SamplingParams, TokenListener


class ScriptedSampler:
    """A `Sampler` whose row r responds with `responses[r][t]` in its turn t, in every session.

    Attributes:
        prompts: of the latest session, by row and turn, the ids that were appended.
        resets: of the latest session, by row, the turns before which it was reset.
    """

    def __init__(self, responses: Sequence[Sequence[SampledResponse]]) -> None:
        self.responses = responses
        self.prompts: list[list[list[int]]] = []
        self.resets: list[list[int]] = []

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> ScriptedSession:
        if len(seeds) > len(self.responses):
            raise ValueError(f"{len(seeds)} dialogues were requested, but only {len(self.responses)} are scripted")
        self.prompts = [[] for _ in seeds]
        self.resets = [[] for _ in seeds]
        return ScriptedSession(self)

    def weights_updated(self, version: int = 0) -> None:
        """No-op: a script has no weights."""

    def sleep(self) -> None:
        """No-op: it holds no device."""

    def wake_up(self) -> None:
        """No-op: it holds no device."""

    def close(self) -> None:
        """No-op: it started nothing."""


class ScriptedSession:
    """Dialogues of a script. See `trainer.engines.sampler.SamplingSession`."""

    def __init__(self, sampler: ScriptedSampler) -> None:
        self.sampler = sampler
        self.appended: dict[int, list[int]] = {}

    def reset_row(self, row: int) -> None:
        self.sampler.resets[row].append(len(self.sampler.prompts[row]))

    def append(self, row: int, ids: list[int]) -> None:
        self.appended[row] = ids

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        """Yields in rounds, like an engine that answers all open prompts before the next ones."""
        waiting = dict(prompts)
        while waiting:
            for row, ids in waiting.items():
                yield row, self._respond(row, ids)
            waiting, self.appended = dict(sorted(self.appended.items())), {}

    def _respond(self, row: int, ids: list[int]) -> SampledResponse:
        turn = len(self.sampler.prompts[row])
        self.sampler.prompts[row].append(list(ids))
        if turn >= len(self.sampler.responses[row]):
            raise ValueError(f"the script of dialogue {row} ends after {turn} turns, but the episode continues")
        return self.sampler.responses[row][turn]
