"""One episode: prompt out, response in, actions executed, rewards and budgets tracked."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from envs import registry
from envs.base import Board, Hint, TextEnv
from envs.pool import as_failure
from trainer.algorithms.rewards import is_format_valid
from trainer.algorithms.thought_rewards import PROGRESS, RewardTermError, TurnContext, score
from trainer.config.run import RunConfig
from trainer.engines.sampler import SampledResponse
from trainer.journal.events import ActionRecord, TrajectoryFinished, Turn
from trainer.policy.chat_format import THINK_END, ChatFormat
from trainer.rollout.actions import ActionExecutor
from trainer.rollout.prompts import opening_message, repeated_line, state_message
from trainer.rollout.response_parser import ParsedResponse, parse_response
from trainer.rollout.tool_turns import call_results, earlier_results, message_role, parse_tool_response
from trainer.rollout.trajectory import Trajectory


class ContextError(ValueError):
    """The first prompt and a response do not fit into the policy's context. The message gives the excess."""


class Episode:
    """One trajectory being played. The loop of its caller:

        while not episode.ended:
            turn = episode.receive(sample(episode.prompt()))

    If the environment raises, its trajectory ends with the error recorded.

    Args:
        env: the environment after its reset.
        config: the run's settings for this environment.
        chat: formats prompts and decodes responses; bound to the environment's tools.
        trajectory: an empty trajectory, filled turn by turn.
        context: context length in tokens.
    Raises:
        EnvironmentFailure: the environment cannot show its first state.
        ContextError: the first prompt and a response do not fit into the context.
    """

    def __init__(self, env: TextEnv, config: RunConfig, chat: ChatFormat, trajectory: Trajectory, context: int) -> None:
        self.env, self.rollout, self.rewards = env, config.rollout, config.rewards
        self.chat = chat = chat.with_tools(env.env_spec.tools)
        self.trajectory, self.context = trajectory, context
        self._environment, self._settings = config.environment.name, config.environment.settings
        self._cells = config.environment.cells
        self._repeated = repeated_line(config.rollout, native=bool(chat.tools))
        self.last_reward: float | None = None
        try:
            self._actions = ActionExecutor(env, config.rollout.max_actions, trajectory)
            self.state = self._state_message()
        except Exception as error:
            raise as_failure(error) from error
        trajectory.task = self.task = opening_message(env.env_spec, self.rollout, config.environment, chat)
        self._next_tokens = chat.opening(self.task + self.state)  # next tokens of the dialogue
        self._window: list[int] | None = None  # the whole next prompt, if it contains only a part of the dialogue
        self._begun: SampledResponse | None = None  # beginning of the next response, if the policy continues one
        if len(self._next_tokens) + self.rollout.max_response_tokens > context:
            raise ContextError(
                f"the first prompt of {env.env_spec.name} has {len(self._next_tokens)} tokens and "
                f"rollout.max_response_tokens is {self.rollout.max_response_tokens}, but the policy's context holds "
                f"only {context}"
            )

    @property
    def ended(self) -> bool:
        return self.trajectory.ended

    @property
    def board(self) -> Board:
        return self._actions.board

    @property
    def hint(self) -> Hint | None:
        return self._actions.hint

    @property
    def actions_left(self) -> int:
        return self._actions.remaining

    @property
    def resets_prompt(self) -> bool:
        """True if the next prompt replaces the whole dialogue instead of being appended."""
        return self._window is not None

    def prompt(self, *, whole: bool = False) -> list[int]:
        """Record the next prompt. Returns its ids: to append, or the whole prompt if `whole` or `resets_prompt`."""
        self.trajectory.append_prompt(self._next_tokens)
        if self._window is not None:
            self.trajectory.prompts[len(self.trajectory.turns)] = self._window
            prompt = self._window
        else:
            prompt = self.trajectory.ids if whole else self._next_tokens
        return [*prompt, *(self._begun.ids if self._begun else ())]

    def change_state(self, text: str) -> None:
        """Let the policy read another message at the next turn; the environment remains in its state."""
        self.state = text
        self._update_prompt()

    def begin_response(self, beginning: SampledResponse) -> None:
        """Write the beginning of the next response, which the policy continues."""
        self._begun = beginning
        self._check_context()

    def receive(self, response: SampledResponse) -> Turn | None:
        """Execute the response's actions and record the turn. None if the engine had no room for a response."""
        if response.context_exceeded:
            if not self.trajectory.turns:
                raise ContextError(
                    f"the first prompt of {self.env.env_spec.name} does not fit into the model's context"
                )
            self._end_at_full_context()
            return None
        if self._begun is not None:
            response, self._begun = _joined(self._begun, response), None
        number, board, hint = len(self.trajectory.turns), self._actions.board, self._actions.hint
        chance = self._best_chance(number)
        parsed, text = self._record(response, number)
        actions = [self._actions.execute(action, number, index) for index, action in enumerate(parsed.actions)]
        unknown = [action.text for action in actions if action.status == "illegal"]
        valid = is_format_valid(
            structured=parsed.structured,
            known_actions=len(actions) - len(unknown),
            unknown_actions=len(unknown),
            rule=self.rewards.format_rule,
        )
        terms = self._reward_terms(parsed, actions, board, chance, format_valid=valid)
        turn = Turn(
            trajectory=self.trajectory.id,
            turn=number,
            state=self.state,
            frame=self._new_frame(number),
            response=text,
            thought=parsed.thought,
            answer=parsed.answer,
            format_valid=valid,
            problem=_problem(parsed, unknown, response),
            actions=actions,
            reward=sum(terms.values()),
            terms=terms,
            tokens=response.tokens,
            truncated=response.truncated,
            entropy=_mean(response.entropies),
            logprob=_mean(response.logprobs),
            board=board,
            hint=hint,
            claims=registry.read_claims(self._environment, parsed.thought, board),
        )
        self.trajectory.turns.append(turn)
        self.last_reward = turn.terms["environment"]  # like RAGEN: without format penalty and reward terms
        self._check_budgets()
        if not self.ended:
            self._prepare_prompt()
        return turn

    def interrupt(self) -> TrajectoryFinished:
        """End the trajectory because a stop was requested. Returns its closing event."""
        self.trajectory.end = "interrupted"
        return self.trajectory.finished()

    # -- steps of a turn --------------------------------------------------------------------------------------------

    def _record(self, response: SampledResponse, turn: int) -> tuple[ParsedResponse, str]:
        """Append the response to the trajectory. Returns it parsed, and its text."""
        start = len(self.trajectory.ids)
        self.trajectory.append_response(response.ids, response.logprobs, response.entropies, turn)
        self.trajectory.versions.append(response.version)
        text = self.chat.decode(response.ids)
        self.trajectory.thought_spans.append((start, start + self._thought_tokens(response.ids, text)))
        think, max_actions = self.rollout.think, self.rollout.max_actions_per_turn
        if self.chat.tools:
            written, reported = self.chat.split_calls(response.ids)
            parsed = parse_tool_response(
                written,
                think=think,
                max_actions=max_actions,
                call_format=self.chat.call_format,
                tools=self.chat.tools,
                reported=reported,
            )
        else:
            parsed = parse_response(text, think=think, max_actions=max_actions)
        return parsed, text

    def _new_frame(self, number: int) -> tuple[str, str] | None:
        """Return the template's text around the message of a turn; None if it equals the previous turn's."""
        roles = [None, *map(message_role, self.trajectory.turns)][: number + 1]
        frames = [self.chat.frame(role) for role in roles[-2:]]
        return None if len(frames) > 1 and frames[0] == frames[1] else frames[-1]

    def _thought_tokens(self, ids: list[int], text: str) -> int:
        """Count the sampled tokens before `</think>` (all, if the thought is never closed)."""
        if not self.rollout.think:
            return 0
        if THINK_END not in text:
            return len(ids)
        end = text.index(THINK_END)
        return bisect_right(range(len(ids) + 1), end, key=lambda n: len(self.chat.decode(ids[:n]))) - 1

    def _reward_terms(
        self,
        parsed: ParsedResponse,
        actions: Sequence[ActionRecord],
        board: Board,
        chance: float | None,
        *,
        format_valid: bool,
    ) -> dict[str, float]:
        """Return the turn's reward terms by name. A failing thought reward ends the trajectory and is recorded."""
        terms = {"environment": sum(action.reward for action in actions)}
        if not format_valid:
            terms["format"] = self.rewards.format_penalty
        if not self.rewards.terms:
            return terms
        context = TurnContext(
            thought=parsed.thought,
            earlier_thoughts=tuple(turn.thought for turn in self.trajectory.turns),
            actions=tuple(parsed.actions),
            action_names=tuple(self.env.env_spec.actions),
            board=board,
            chance_before=chance,
            chance_after=None if chance is None else self._best_chance(len(self.trajectory.turns) + 1),
        )
        try:
            return terms | score(self.rewards.terms, context)
        except RewardTermError as error:
            self.trajectory.fail(error)
            return terms

    def _best_chance(self, turns: int) -> float | None:
        """Return the chance of success after a number of turns, if the rest were played optimally; 0 after the end.

        None if it is unknown, or if no reward term reads it.
        """
        if PROGRESS not in self.rewards.terms:
            return None
        left = min(self.actions_left, (self.rollout.max_turns - turns) * self.rollout.max_actions_per_turn)
        if self.ended or left <= 0:
            return 0.0
        return registry.best_chance(self._environment, self.hint, self.board, self._settings, left)

    def _check_budgets(self) -> None:
        if self.ended:
            return
        if self.actions_left == 0:
            self.trajectory.end = "actions"
        elif len(self.trajectory.turns) >= self.rollout.max_turns:
            self.trajectory.end = "turns"

    def _prepare_prompt(self) -> None:
        """Prepare the next prompt, or end the trajectory if the prompt and a response exceed the context."""
        try:
            self.state = self._state_message()
        except Exception as error:  # noqa: BLE001 environments are third-party code; what they raise is recorded
            self.trajectory.fail(as_failure(error))
            return
        self._update_prompt()

    def _update_prompt(self) -> None:
        """Compute the tokens of the next prompt, or end the trajectory if it exceeds the context."""
        turns = self.trajectory.turns
        self._next_tokens = self._between(turns[-1], self.state) if turns else self.chat.opening(self.task + self.state)
        shown_turns = self.rollout.context_turns
        first = len(turns) + 1 - shown_turns if shown_turns else 0
        self._window = self._window_from(first) if first > 0 else None
        self._check_context()

    def _check_context(self) -> None:
        """End the trajectory if the next prompt and a response exceed the context."""
        length = len(self.trajectory.ids) + len(self._next_tokens) if self._window is None else len(self._window)
        length += len(self._begun.ids) if self._begun else 0
        if length + self.rollout.max_response_tokens > self.context:
            self._end_at_full_context()

    def _state_message(self) -> str:
        turns = self.trajectory.turns
        results = call_results(turns[-1]) if turns and not self.chat.separate_results else ""
        return state_message(
            results or self._rendered(),
            turn=len(turns),
            actions_left=self.actions_left,
            last_reward=self.last_reward,
            format_line=self._repeated,
        )

    def _rendered(self) -> str:
        text, spec = self.env.render(), self.env.env_spec
        if self._cells == "located":
            return spec.located(text)
        return spec.spaced(text) if self._cells == "spaced" else text

    def _window_from(self, first: int) -> list[int]:
        """Return the task and the dialogue from the state of turn `first` on, with responses as sampled."""
        turns = self.trajectory.turns[first:]
        states = [*(turn.state for turn in turns), self.state]
        ids = self.chat.opening(self.task + states[0])
        for turn, state in zip(turns, states[1:], strict=True):
            ids += self.trajectory.response(turn.turn)
            ids += self._between(turn, state)
        return ids

    def _between(self, turn: Turn, state: str) -> list[int]:
        """Return the tokens between the response of a turn and the next response, with the resulting state."""
        earlier = earlier_results(turn) if self.chat.separate_results else []
        role = message_role(turn)
        ended = self.chat.is_ended(self.trajectory.response(turn.turn), role)
        return self.chat.between(state, ended=ended, role=role, earlier=earlier)

    def _end_at_full_context(self) -> None:
        self.trajectory.end = "truncated"
        self.trajectory.error = "the dialogue filled the policy's context"


def _joined(beginning: SampledResponse, rest: SampledResponse) -> SampledResponse:
    """Return the response that a beginning and its continuation make."""
    return replace(
        rest,
        ids=[*beginning.ids, *rest.ids],
        logprobs=[*beginning.logprobs, *rest.logprobs],
        entropies=[*beginning.entropies, *rest.entropies],
    )


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean; None if there are no values or one is NaN."""
    mean = fmean(values) if values else math.nan
    return None if math.isnan(mean) else mean


def _problem(parsed: ParsedResponse, unknown: Sequence[str], response: SampledResponse) -> str | None:
    if parsed.problem is not None:
        return f"{parsed.problem} (cut at {response.tokens} tokens)" if response.truncated else parsed.problem
    if unknown:
        return "no such action: " + ", ".join(repr(word[:40]) for word in unknown)
    return None
