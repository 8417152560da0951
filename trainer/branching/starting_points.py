"""Positions of a recorded attempt, as the rollout plays them on: seeds, token ids, changes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from envs import registry
from trainer.branching.changed_response import ChangeError, check_text, split_response, with_answer
from trainer.config.run import RunConfig
from trainer.engines.sampler import SampledResponse
from trainer.evaluation import suite_runner
from trainer.evaluation.suites import get_suites
from trainer.journal.branches import Change
from trainer.journal.events import Turn
from trainer.loops.recorded_attempts import RecordedAttempt
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import Policy
from trainer.policy.pocket import is_pocket
from trainer.rollout.environment_mix import get_shares, plan_groups
from trainer.rollout.positions import Position, PositionError
from trainer.rollout.rebuilding import response_ids
from trainer.rollout.runner import GroupPlan
from trainer.seeds import Purpose, derive, number_of

UNCHANGED = Change()


@dataclass(frozen=True)
class StartingPoints:
    """All positions of a recorded attempt, for a policy.

    Attributes:
        config: settings as if the attempt's environment were the only one of the run.
        chat: format of the policy's dialogues, without tools; `bound` has the environment's tools.
        vocabulary: number of ids that the policy can read, which is often larger than its tokenizer's.
    """

    attempt: RecordedAttempt
    config: RunConfig
    chat: ChatFormat
    vocabulary: int

    def __post_init__(self) -> None:
        """Raise PositionError if the environment must not be played again."""
        environment = self.config.environment
        if problem := registry.replay_problem(environment.name, environment.settings):
            raise PositionError(f"{environment.name} cannot be played again: {problem}")

    @classmethod
    def of(cls, attempt: RecordedAttempt, policy: Policy) -> StartingPoints:
        """Prepare an attempt for weights. Raises PositionError, TemplateError."""
        config = attempt.environment_config.with_prompts(pocket=is_pocket(policy.tokenizer))
        chat = ChatFormat.of_rollout(policy.tokenizer, config.rollout, policy.end_ids)
        return cls(attempt, config, chat, int(policy.model.config.get_text_config().vocab_size))

    @cached_property
    def bound(self) -> ChatFormat:
        return self.chat.with_tools(self.attempt.group.tools or ())

    @cached_property
    def tokens(self) -> Literal["recorded", "encoded"]:
        """Whether the responses have their recorded ids or ids encoded from their text."""
        return "encoded" if self._recorded is None else "recorded"

    @cached_property
    def responses(self) -> list[SampledResponse]:
        """The attempt's responses as sampled; log-probabilities and entropies that are not recorded are NaN."""
        if self._recorded is not None:
            return self._recorded
        ids = [self._encoded(turn) for turn in self.attempt.turns]
        return [self._response(turn, own, None, None) for turn, own in zip(self.attempt.turns, ids, strict=True)]

    def _encoded(self, turn: Turn) -> list[int]:
        if not self.chat.knows_prompt_tokens:  # the end is no token of the response
            return self.bound.encode_response(turn.response)
        return response_ids(turn, self.bound, stops_at_answer=self.config.rollout.stops_at_answer)

    @cached_property
    def _recorded(self) -> list[SampledResponse] | None:
        """The responses with their recorded ids; None without any, or if the policy has other tokens."""
        arrays, turns = self.attempt.tokens, self.attempt.turns
        if arrays is None or len(arrays.turns) != len(turns):
            return None
        responses, start = [], 0
        for turn, count in zip(turns, arrays.turns, strict=True):
            part = slice(start, start + count)
            ids = arrays.ids[part].tolist()
            if max(ids, default=0) >= self.vocabulary or self.bound.decode(ids) != turn.response:
                return None
            logprobs, entropies = (
                None if values is None else values[part].astype(float).tolist()
                for values in (arrays.logprobs, arrays.entropies)
            )
            responses.append(self._response(turn, ids, logprobs, entropies))
            start += count
        return responses

    def _response(
        self, turn: Turn, ids: list[int], logprobs: list[float] | None, entropies: list[float] | None
    ) -> SampledResponse:
        unknown = [math.nan] * len(ids)
        ended = bool(ids) and ids[-1] in self.bound.end_ids
        return SampledResponse(
            ids=ids,
            logprobs=logprobs or unknown,
            entropies=entropies or unknown,
            ended=ended,
            stopped=not (ended or turn.truncated),
            reported_tokens=None if turn.tokens in (None, len(ids)) else turn.tokens,
        )

    def position(self, turn: int, change: Change = UNCHANGED, luck: Sequence[int] = ()) -> Position:
        """Return the position before the response of a turn. Raises PositionError, ChangeError."""
        turns = self.attempt.turns
        if not 0 <= turn < len(turns):
            raise PositionError(f"there is no turn {turn + 1}: the attempt has {len(turns)}")
        if change.state is not None:
            check_text(change.state, "state", self.bound)
        beginning = self._changed_beginning(turn, change)
        return Position(
            turns=turns[:turn],
            responses=self.responses[:turn],
            state=turns[turn].state,
            changed_state=change.state,
            beginning=beginning,
            is_complete=change.answer is not None,
            luck=luck,
        )

    def _changed_beginning(self, turn: int, change: Change) -> SampledResponse | None:
        if change.thought is None and change.answer is None:
            return None
        chat, parts = self.bound, split_response(self.attempt.turns[turn].response, self.bound)
        text = parts.beginning
        if change.thought is not None:
            if not chat.think:
                raise ChangeError("this policy writes no thoughts (rollout.think): change the answer or the state")
            check_text(change.thought, "thought", chat)
            text = parts.with_thought(change.thought)
        if change.answer is None:
            return self.written(text)
        check_text(change.answer, "answer", chat)
        text = with_answer(text, change.answer, chat)
        return self.written(text, ended=bool(chat.tools) or not self.config.rollout.stops_at_answer)

    def has_answer(self, turn: int) -> bool:
        """Whether the response of a turn has an answer or calls behind its thought."""
        return split_response(self.attempt.turns[turn].response, self.bound).complete

    def own_beginning(self, turn: int) -> SampledResponse:
        """Return the recorded response up to where its answer begins, with its recorded ids if tokens end there."""
        whole, text = self.responses[turn], split_response(self.attempt.turns[turn].response, self.bound).beginning
        sizes = range(len(whole.ids) + 1)
        count = bisect_left(sizes, len(text), key=lambda size: len(self.bound.decode(whole.ids[:size])))
        if self.bound.decode(whole.ids[:count]) != text:
            return self.written(text)
        return SampledResponse(whole.ids[:count], whole.logprobs[:count], whole.entropies[:count])

    def written(self, text: str, *, ended: bool = False) -> SampledResponse:
        """Return a text as a response that was not sampled, perhaps with the token that ends it. Raises ChangeError."""
        ids = self.bound.encode_response(text)
        if self.bound.decode(ids) != text:
            raise ChangeError("the changed text cannot be written in the tokens of this policy")
        ids = [*ids, self.bound.eos_id] if ended else ids
        unknown = [math.nan] * len(ids)
        return SampledResponse(ids, unknown, unknown, ended=ended, stopped=not ended)

    def plan(self, position: Position, samples: int, *, group: int = 0) -> GroupPlan:
        """Plan branches from a position; equal positions of one attempt have equal seeds, whatever is changed there.

        Args:
            group: number of the group within a request.
        """
        attempt, turn = self.attempt, len(position.turns)
        return GroupPlan(
            group=group,
            seed=attempt.group.seed,
            members=tuple(branch_name(attempt.trajectory, turn, sample) for sample in range(samples)),
            dynamics_seeds=(self.dynamics_seed,) * samples,
            sampling_seeds=tuple(self.seeds(Purpose.SAMPLING, turn, range(samples))),
            config=self.config,
            position=position,
        )

    def seeds(self, purpose: Purpose, turn: int, samples: Iterable[int]) -> list[int]:
        """Return the seeds of branches from the position before a turn."""
        place = (self.attempt.config.seed, Purpose.BRANCH, purpose, number_of(self.attempt.trajectory), turn)
        return [derive(*place, sample) for sample in samples]

    @cached_property
    def dynamics_seed(self) -> int:
        """Seed of the attempt's later randomness, derived as when it was played."""
        group, config = self.attempt.group, self.attempt.config
        member = group.members.index(self.attempt.trajectory)
        if group.split == "train":
            plans = plan_groups(config, get_shares(config), group.iteration, [0], first=group.group)
        else:
            suites = {suite.name: suite for suite in get_suites(config)}
            suite = suites.get(group.suite or "")
            plans = suite_runner.group_plans(suite.config, group.iteration, suite.number) if suite else []
            plans = plans[group.group : group.group + 1]
        if not plans or member >= len(plans[0].dynamics_seeds):
            raise PositionError("the seeds of this attempt cannot be derived from the settings of its run")
        return plans[0].dynamics_seeds[member]


def branch_name(trajectory: str, turn: int, sample: int) -> str:
    """Return the id of a branch."""
    return f"{trajectory}-t{turn:02d}-b{sample:02d}"
