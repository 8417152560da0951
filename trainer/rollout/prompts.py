"""Texts of the user messages that a policy reads."""

from __future__ import annotations

from envs.base import EnvSpec
from trainer.config.run import RolloutConfig
from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK, THINK_END
from trainer.rollout.response_parser import ACTION_SEPARATOR


def opening_message(spec: EnvSpec, rollout: RolloutConfig, instruction: str | None = None) -> str:
    """The task: the part of the first user message before the first state. `instruction` replaces that of `spec`."""
    lines = [instruction or spec.instruction]
    if spec.vocabulary:
        lines.append("Symbols: " + ", ".join(f"{symbol} {meaning}" for symbol, meaning in spec.vocabulary.items()))
    if spec.actions:
        lines.append("Actions: " + ", ".join(spec.actions))
    many, word = rollout.max_actions_per_turn, "action" if spec.actions else "your answer"
    example = f"{word} {ACTION_SEPARATOR} {word}" if many > 1 else word
    thought = f"{THINK}thought{THINK_END}" if rollout.think else ""
    limit = f"at most {many} {'actions' if spec.actions else 'answers'}, " if many > 1 else ""
    lines.append(f"Answer: {thought}{ANSWER}{example}{ANSWER_END}, {limit}{rollout.max_response_tokens} tokens.")
    return "\n".join(lines) + "\n"


def state_message(state: str, *, turn: int, actions_left: int, last_reward: float | None) -> str:
    """The user message of one turn: reward of the previous turn, state, remaining actions."""
    reward = "" if last_reward is None else f"Reward: {last_reward:g}\n"
    return f"{reward}Turn {turn + 1}:\n{state}\nActions left: {actions_left}"
