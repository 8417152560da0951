"""One trajectory being played: prompts out, a response in, its actions executed, rewards and budgets kept.

Many episodes at a time, and the sampler between them, are rollout.py's business.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from statistics import fmean

from envs.base import Board, TextEnv
from envs.pool import failure_message
from envs.sandbox.client import EnvironmentFailure
from trainer.algorithms.rewards import is_format_valid
from trainer.algorithms.thought_rewards import RewardTermError, TurnContext, score
from trainer.config.run import RunConfig
from trainer.engines.base import SampledResponse
from trainer.journal.events import ActionRecord, LostAt, TrajectoryFinished, Turn
from trainer.policy.chat_format import (
    THINK_END,
    ChatFormat,
    ParsedResponse,
    opening_message,
    parse_response,
    state_message,
)
from trainer.rollout.trajectory import Trajectory


class ContextError(ValueError):
    """The first prompt and a response do not fit into the policy's context. The message says by how much."""


class Episode:
    """One trajectory being played: the environment (after its reset), the dialogue so far, the budgets left.

    An environment that fails while it is played ends its own trajectory, with the error recorded, and nothing else. One
    that cannot even show its first state raises EnvironmentFailure here.
    """

    def __init__(self, env: TextEnv, config: RunConfig, chat: ChatFormat, trajectory: Trajectory, context: int) -> None:
        self.env, self.rollout, self.rewards, self.chat = env, config.rollout, config.rewards, chat
        self.instruction = config.environment.instruction
        self.trajectory, self.context = trajectory, context
        self.actions_left = config.rollout.max_actions
        self.last_reward: float | None = None
        self.ended = False
        try:
            self.board, self.hint, self.state = env.board(), env.hint(), self._state()
        except Exception as error:
            raise EnvironmentFailure(failure_message(error)) from error
        self.names = {name.lower(): name for name in env.world.actions}
        self._task = opening_message(env.world, self.rollout, self.instruction)
        self._upcoming = chat.opening(self._task + self.state)
        self._instead: list[int] | None = None
        if len(self._upcoming) + self.rollout.max_response_tokens > context:
            raise ContextError(
                f"the first prompt of {env.world.name} has {len(self._upcoming)} tokens and "
                f"rollout.max_response_tokens is {self.rollout.max_response_tokens}, but the policy's context holds "
                f"only {context}"
            )

    def _state(self) -> str:
        return state_message(
            self.env.render(),
            turn=len(self.trajectory.turns),
            actions_left=self.actions_left,
            last_reward=self.last_reward,
        )

    @property
    def restarts(self) -> bool:
        """Whether the next prompt stands for everything before it, instead of being appended."""
        return self._instead is not None

    def prompt(self) -> list[int]:
        """Token ids to append before the next response (to start from, if `restarts`); also recorded as read."""
        self.trajectory.read(self._upcoming)
        if self._instead is None:
            return self._upcoming
        self.trajectory.prompts[len(self.trajectory.turns)] = self._instead
        return self._instead

    def receive(self, response: SampledResponse) -> Turn | None:
        """Execute what the response says and record the turn. None if the engine had no room for a response."""
        trajectory, index = self.trajectory, len(self.trajectory.turns)
        if response.full:
            if not trajectory.turns:
                raise ContextError(f"the first prompt of {self.env.world.name} does not fit into the model's context")
            self._fill()
            return None
        start = len(trajectory.ids)
        trajectory.wrote(response.ids, response.logprobs, response.entropies, index)
        text = self.chat.decode(response.ids)
        trajectory.thought_spans.append((start, start + self._thought_tokens(response.ids, text)))
        parsed = parse_response(text, think=self.rollout.think, max_actions=self.rollout.max_actions_per_turn)
        before, hint_before = self.board, self.hint
        actions = [self._act(word, index, number) for number, word in enumerate(parsed.actions)]
        unknown = [action.text for action in actions if action.status == "illegal"]
        terms = {"environment": sum(action.reward for action in actions)}
        valid = is_format_valid(
            structured=parsed.structured,
            known_actions=len(actions) - len(unknown),
            unknown_actions=len(unknown),
            rule=self.rewards.format_rule,
        )
        if not valid:
            terms["format"] = self.rewards.format_penalty
        terms |= self._of_the_thought(parsed, before)
        turn = Turn(
            trajectory=trajectory.id,
            turn=index,
            state=self.state,
            response=text,
            thought=parsed.thought,
            answer=parsed.answer,
            format_valid=valid,
            problem=_problem(parsed, unknown, response),
            actions=actions,
            reward=sum(terms.values()),
            terms=terms,
            tokens=response.tokens,
            truncated=not response.ended,
            entropy=_mean(response.entropies),
            logprob=_mean(response.logprobs),
            board=before,
            hint=hint_before,
        )
        trajectory.turns.append(turn)
        self.last_reward = turn.reward
        self._close_if_over(response)
        return turn

    def _of_the_thought(self, parsed: ParsedResponse, board: Board) -> dict[str, float]:
        """The reward terms that look at the thought. One that fails ends this trajectory, with the error recorded."""
        if not self.rewards.terms:
            return {}
        turn = TurnContext(
            thought=parsed.thought,
            earlier_thoughts=tuple(turn.thought for turn in self.trajectory.turns),
            actions=tuple(parsed.actions),
            action_names=tuple(self.env.world.actions),
            board=board,
        )
        try:
            return score(self.rewards.terms, turn)
        except RewardTermError as error:
            self.ended = True
            self.trajectory.fail(str(error))
            return {}

    def _thought_tokens(self, ids: list[int], text: str) -> int:
        """How many of the sampled tokens lie before `</think>` (all, if the thought is never closed)."""
        if not self.rollout.think:
            return 0
        if THINK_END not in text:
            return len(ids)
        end = text.index(THINK_END)
        return bisect_right(range(len(ids) + 1), end, key=lambda n: len(self.chat.decode(ids[:n]))) - 1

    def _act(self, word: str, turn: int, number: int) -> ActionRecord:
        name = self.names.get(word.lower()) if self.names else word
        if name is None:
            return ActionRecord(text=word, status="illegal")
        if self.ended or self.actions_left == 0:
            return ActionRecord(text=word, status="ignored", name=name)
        try:
            return self._step(word, name, turn, number)
        except Exception as error:  # noqa: BLE001 an environment is anybody's code, and what it raises is recorded
            self._fail(error)
            return ActionRecord(text=word, status="ignored", name=name)

    def _step(self, word: str, name: str, turn: int, number: int) -> ActionRecord:
        _, reward, terminated, truncated, info = self.env.step(name)
        if not info["valid"]:
            return ActionRecord(text=word, status="illegal")
        if not math.isfinite(reward):
            raise ValueError(f"the reward {reward} is not a finite number")
        board, hint = self.env.board(), self.env.hint()
        self.board, self.hint = board, hint
        self.actions_left -= 1
        self.trajectory.success = bool(info["success"])
        if terminated or truncated:
            self.ended, self.trajectory.end = True, "terminated" if terminated else "truncated"
        if hint is not None and hint.solvable == "no" and not self.trajectory.success and not self.trajectory.lost_at:
            reason = hint.reason or "no way to success is left"
            self.trajectory.lost_at = LostAt(turn=turn, action=number, reason=reason)
        return ActionRecord(
            text=word,
            status="executed",
            name=name,
            reward=float(reward),
            effective=bool(info["effective"]),
            actual=info.get("actual"),
            board=board,
            hint=hint,
        )

    def _fail(self, error: Exception) -> None:
        self.ended = True
        self.trajectory.fail(failure_message(error))

    def _close_if_over(self, response: SampledResponse) -> None:
        trajectory = self.trajectory
        if self.ended:
            return
        if self.actions_left == 0:
            self.ended, trajectory.end = True, "actions"
        elif len(trajectory.turns) >= self.rollout.max_turns:
            self.ended, trajectory.end = True, "turns"
        else:
            self._look_ahead(response)

    def _look_ahead(self, response: SampledResponse) -> None:
        """Make the next prompt, or end here if there is no room for it and its response."""
        try:
            self.state = self._state()
        except Exception as error:  # noqa: BLE001 an environment is anybody's code, and what it raises is recorded
            self._fail(error)
            return
        self._upcoming = self.chat.between(self.state, ended=response.ended)
        shown = self.rollout.context_turns
        first = len(self.trajectory.turns) + 1 - shown if shown else 0
        self._instead = self._window(first) if first > 0 else None
        known = len(self.trajectory.ids) + len(self._upcoming) if self._instead is None else len(self._instead)
        if known + self.rollout.max_response_tokens > self.context:
            self._fill()

    def _fill(self) -> None:
        self.ended, self.trajectory.end = True, "truncated"
        self.trajectory.error = "the dialogue filled the policy's context"

    def _window(self, first: int) -> list[int]:
        """The task and the dialogue from the state of turn `first` on, responses as they were sampled."""
        turns = self.trajectory.turns[first:]
        states = [*(turn.state for turn in turns), self.state]
        ids = self.chat.opening(self._task + states[0])
        for turn, state in zip(turns, states[1:], strict=True):
            ids += self.trajectory.response(turn.turn) + self.chat.between(state, ended=not turn.truncated)
        return ids

    def interrupt(self) -> TrajectoryFinished:
        """The closing event of a trajectory whose run was asked to stop."""
        self.ended, self.trajectory.end = True, "interrupted"
        return self.finished()

    def finished(self) -> TrajectoryFinished:
        """The closing event."""
        return self.trajectory.finished()


def _mean(values: Sequence[float]) -> float | None:
    """None of nothing, and where one is not known."""
    found = fmean(values) if values else math.nan
    return None if math.isnan(found) else found


def _problem(parsed: ParsedResponse, unknown: Sequence[str], response: SampledResponse) -> str | None:
    if parsed.problem is not None:
        return parsed.problem if response.ended else f"{parsed.problem} (cut at {response.tokens} tokens)"
    if unknown:
        return "no such action: " + ", ".join(repr(word[:40]) for word in unknown)
    return None
