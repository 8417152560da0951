"""Texts of the user messages that a policy reads."""

from __future__ import annotations

import json
import re
from functools import lru_cache

import envs
from envs.base import EnvSpec
from envs.demonstrators import TurnPlan, example_turns
from envs.tools.call_formats import tools_as_text
from trainer.config.run import EnvironmentConfig, RolloutConfig, RunConfig
from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK, THINK_END, ChatFormat
from trainer.rollout.response_parser import ACTION_SEPARATOR

_THOUGHT = re.compile(f"{THINK}.*?{THINK_END}", re.DOTALL)


def instruction(spec: EnvSpec, rollout: RolloutConfig, environment: EnvironmentConfig | None) -> str:
    """Return the wording of the task: the run's own, the paper's if selected and available, or the environment's.

    Without thoughts, the paper's example of an answer has no thought either.
    """
    if environment is not None and environment.instruction:
        return environment.instruction
    if rollout.format_line == "paper" and spec.paper_instruction:
        return spec.paper_instruction if rollout.think else _THOUGHT.sub("", spec.paper_instruction)
    return spec.instruction


def opening_message(
    spec: EnvSpec,
    rollout: RolloutConfig,
    environment: EnvironmentConfig | None = None,
    chat: ChatFormat | None = None,
) -> str:
    """Return the task: the first user message up to the first state.

    `environment` may have another wording than the environment's. `chat`, with the environment's tools, describes
    their calls; without one, calls are answers. Tools that the chat template describes are omitted.
    """
    lines = [instruction(spec, rollout, environment)]
    if spec.vocabulary:
        lines.append("Symbols: " + ", ".join(f"{symbol} {meaning}" for symbol, meaning in spec.vocabulary.items()))
    if spec.actions:
        lines.append("Actions: " + ", ".join(spec.actions))
    native = chat is not None and bool(chat.tools)
    if spec.tools and not (chat and chat.renders_tools):
        lines.append(tools_as_text(spec.tools, chat.call_format if chat and native else "answer"))
    if line := format_line(spec, rollout, environment, native=native):
        lines.append(line)
    return "\n".join(lines) + "\n"


def format_line(
    spec: EnvSpec, rollout: RolloutConfig, environment: EnvironmentConfig | None = None, *, native: bool = False
) -> str:
    """Return the last line of the task, which explains the format of an answer as configured in `rollout.format_line`.

    With `auto`, while the policy is not known yet, the line is the pocket policy's.

    Args:
        native: whether tool calls use the model family's format, so that only answers have tags.
    """
    match rollout.format_line:
        case "words":
            return _format_text(spec, rollout, native=native)
        case "example":
            examples = [] if environment is None or spec.tools else _examples(environment, rollout)
            return _by_example(spec, rollout, examples) if examples else _format_text(spec, rollout, native=native)
        case "paper":  # the format itself is repeated at each turn
            return _separator(spec, rollout, native=native)
    return _placeholders(spec, rollout, native=native)


def described_format(config: RunConfig) -> str:
    """Return all text of a run's prompts that describes the format of an answer, in its first environment."""
    environment, rollout = config.environment, config.rollout
    spec = envs.spec(environment.name, environment.settings)
    return f"{format_line(spec, rollout, environment)}\n{repeated_line(rollout)}"


def repeated_line(rollout: RolloutConfig, *, native: bool = False) -> str:
    """Return the format line of every state, as in the code published with the paper; empty with other formats."""
    if rollout.format_line != "paper":
        return ""
    thought = f"{THINK} [Your thoughts] {THINK_END} " if rollout.think else ""
    answer = f"{ANSWER} [your answer] {ANSWER_END}"
    form = f"{thought}[a call], or {thought}{answer}" if native else f"{thought}{answer}"
    return f"Write only {form}. {_token_limit(rollout)}"


def state_message(state: str, *, turn: int, actions_left: int, last_reward: float | None, format_line: str = "") -> str:
    """Return the user message of a turn: previous reward, state, remaining actions, and the format if repeated."""
    reward = "" if last_reward is None else f"Reward: {last_reward:g}\n"
    line = f"\n{format_line}" if format_line else ""
    return f"{reward}Turn {turn + 1}:\n{state}\nActions left: {actions_left}{line}"


# -- formats ------------------------------------------------------------------------------------------------------


def _placeholders(spec: EnvSpec, rollout: RolloutConfig, *, native: bool) -> str:
    many, word = rollout.max_actions_per_turn, "action" if spec.actions else "your answer"
    if spec.tools and not native:
        word = "a call or your answer"
    example = f"{word} {ACTION_SEPARATOR} {word}" if many > 1 else word
    thought = f"{THINK}thought{THINK_END}" if rollout.think else ""
    limit = f"at most {many} {'actions' if spec.actions else 'answers'}, " if many > 1 else ""
    if native:
        example, limit, thought = word, f"at most {many} calls, " if many > 1 else "", f"{thought}a call, or {thought}"
    return f"Answer: {thought}{ANSWER}{example}{ANSWER_END}, {limit}{rollout.max_response_tokens} tokens."


def _format_text(spec: EnvSpec, rollout: RolloutConfig, *, native: bool) -> str:
    many = rollout.max_actions_per_turn
    separated = f", separated by {ACTION_SEPARATOR}," if many > 1 else ""
    if native:
        answer = f"call a tool{f' (at most {many} calls)' if many > 1 else ''}, or write your answer"
    elif spec.tools:
        answer = f"write a call or your answer{f', or up to {many} of them{separated}' if many > 1 else ''}"
    elif spec.actions:
        answer = f"write up to {many} of the actions{separated}" if many > 1 else "write one of the actions"
    else:
        answer = f"write up to {many} answers{separated}" if many > 1 else "write your answer"
    answer = f"{answer} between {ANSWER} and {ANSWER_END}"
    if rollout.think:
        steps = f"First write what you think, between {THINK} and {THINK_END}. Then {answer}."
    else:
        steps = f"{answer[0].upper()}{answer[1:]}."
    return f"{steps} {_token_limit(rollout)}"


def _by_example(spec: EnvSpec, rollout: RolloutConfig, examples: list[TurnPlan]) -> str:
    """Return examples, followed by the format as a sentence.

    With examples only, models omit the answer or its tags; the sentence before the examples helped the smallest models
    less.
    """
    title = "Examples of an answer" if len(examples) > 1 else "Example of an answer, in another state"
    shown = " or ".join(example_text(example, think=rollout.think) for example in examples)
    return f"{title}: {shown}\n{_format_text(spec, rollout, native=False)}"


def example_text(example: TurnPlan, *, think: bool) -> str:
    """Format a demonstrated turn as a response."""
    thought = f"{THINK}{example.thought}{THINK_END}" if think else ""
    return f"{thought}{ANSWER}{f' {ACTION_SEPARATOR} '.join(example.actions)}{ANSWER_END}"


def _separator(spec: EnvSpec, rollout: RolloutConfig, *, native: bool) -> str:
    """Explain how to write several actions, and their limit; empty if only one is allowed."""
    many = rollout.max_actions_per_turn
    if many == 1:
        return ""
    if native:
        return f"Use at most {many} calls."
    kind = "calls or answers" if spec.tools else "actions" if spec.actions else "answers"
    return f"Separate {kind} by {ACTION_SEPARATOR}, at most {many}."


def _token_limit(rollout: RolloutConfig) -> str:
    return f"Use at most {rollout.max_response_tokens} tokens."


def _examples(environment: EnvironmentConfig, rollout: RolloutConfig) -> list[TurnPlan]:
    settings = json.dumps(environment.settings, sort_keys=True)
    return _cached_examples(environment.name, settings, rollout.max_actions_per_turn)


@lru_cache(maxsize=64)
def _cached_examples(name: str, settings: str, limit: int) -> list[TurnPlan]:
    return example_turns(name, json.loads(settings), limit)
