"""Policies whose answers are known: functions of what they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import envs
from trainer.engines.sampler import SampledResponse, SamplingParams, TokenListener
from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK, ChatFormat

STATE = re.compile(r"Turn \d+:\n(.*?)\nActions left", re.DOTALL)


class Constructed:
    """A `Sampler` whose answers are a function of what it reads and of the row's seed.

    Args:
        chat: writes the answers in the tokens of the policy.
        choose: returns the actions for the new part of the dialogue, the thought at its end, and the seed.
    """

    def __init__(self, chat: ChatFormat, choose: Callable[[str, str, int], str]) -> None:
        self.chat, self.choose = chat, choose

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> ConstructedSession:
        return ConstructedSession(self, seeds)

    def weights_updated(self, version: int = 0) -> None:
        """No-op: it has no weights."""

    def sleep(self) -> None:
        """No-op."""

    def wake_up(self) -> None:
        """No-op."""

    def close(self) -> None:
        """No-op."""


class ConstructedSession:
    """See `trainer.engines.sampler.SamplingSession`."""

    def __init__(self, sampler: Constructed, seeds: Sequence[int]) -> None:
        self.sampler, self.seeds = sampler, seeds
        self.appended: dict[int, list[int]] = {}

    def reset_row(self, row: int) -> None:
        """No-op: it remembers nothing."""

    def append(self, row: int, ids: list[int]) -> None:
        self.appended[row] = ids

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        waiting = dict(prompts)
        while waiting:
            for row, ids in waiting.items():
                yield row, self._respond(row, ids)
            waiting, self.appended = self.appended, {}

    def _respond(self, row: int, ids: list[int]) -> SampledResponse:
        chat = self.sampler.chat
        prompt = chat.tokenizer.decode(ids)
        thought = prompt.rpartition(THINK)[2]
        begun = thought.endswith(ANSWER)
        action = self.sampler.choose(prompt, thought.partition("</think>")[0], self.seeds[row])
        text = f"{action}{ANSWER_END}" if begun else f"so</think>{ANSWER}{action}{ANSWER_END}"
        written = [*chat.tokenizer.encode(text, add_special_tokens=False), chat.eos_id]
        return SampledResponse(written, [-1.0] * len(written), [0.0] * len(written), ended=True)


@cache
def best_actions(room: str, count: int = 3) -> str:
    """Up to so many actions of the solver, or any where nothing helps."""
    env = envs.make("Sokoban")
    env.reset(seed=0, options={"room": room})
    actions: list[str] = []
    while len(actions) < count:
        actions.append((env.hint().actions or ["Up"])[0])
        if env.step(actions[-1])[2]:
            break
    return " || ".join(actions)
