"""Texts of the user messages that a policy reads."""

from __future__ import annotations

import re

from envs.base import EnvSpec
from envs.tools.call_formats import tools_as_text
from trainer.config.run import EnvironmentConfig, RolloutConfig
from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK, THINK_END, ChatFormat
from trainer.rollout.response_parser import ACTION_SEPARATOR

_THOUGHT = re.compile(f"{THINK}.*?{THINK_END}", re.DOTALL)


def instruction(spec: EnvSpec, environment: EnvironmentConfig, *, think: bool) -> str:
    """The wording of the task: the run's own, the paper's where the run takes that and has it, or the environment's.

    Without thoughts, the paper's example of an answer has none either.
    """
    if environment.instruction:
        return environment.instruction
    if environment.wording == "paper" and spec.paper_instruction:
        return spec.paper_instruction if think else _THOUGHT.sub("", spec.paper_instruction)
    return spec.instruction


def opening_message(
    spec: EnvSpec,
    rollout: RolloutConfig,
    environment: EnvironmentConfig | None = None,
    chat: ChatFormat | None = None,
) -> str:
    """The task: the part of the first user message before the first state, in the environment's own wording unless
    `environment` has another.

    `chat`, with the environment's tools, says how these are called; without one, calls are answers. Tools that the chat
    template describes are left out.
    """
    lines = [spec.instruction if environment is None else instruction(spec, environment, think=rollout.think)]
    if spec.vocabulary:
        lines.append("Symbols: " + ", ".join(f"{symbol} {meaning}" for symbol, meaning in spec.vocabulary.items()))
    if spec.actions:
        lines.append("Actions: " + ", ".join(spec.actions))
    native = chat is not None and bool(chat.tools)
    if spec.tools and not (chat and chat.renders_tools):
        lines.append(tools_as_text(spec.tools, chat.call_format if chat and native else "answer"))
    many, word = rollout.max_actions_per_turn, "action" if spec.actions else "your answer"
    if spec.tools and not native:
        word = "a call or your answer"
    example = f"{word} {ACTION_SEPARATOR} {word}" if many > 1 else word
    thought = f"{THINK}thought{THINK_END}" if rollout.think else ""
    limit = f"at most {many} {'actions' if spec.actions else 'answers'}, " if many > 1 else ""
    if native:
        example, limit, thought = word, f"at most {many} calls, " if many > 1 else "", f"{thought}a call, or {thought}"
    lines.append(f"Answer: {thought}{ANSWER}{example}{ANSWER_END}, {limit}{rollout.max_response_tokens} tokens.")
    return "\n".join(lines) + "\n"


def state_message(state: str, *, turn: int, actions_left: int, last_reward: float | None) -> str:
    """The user message of one turn: the environment's reward of the previous turn, state, remaining actions."""
    reward = "" if last_reward is None else f"Reward: {last_reward:g}\n"
    return f"{reward}Turn {turn + 1}:\n{state}\nActions left: {actions_left}"
