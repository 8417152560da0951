"""Chat format of a model: turns to token ids and back, the text of prompts, and the response parser.

The history of a trajectory is only ever extended: sampled tokens stay as they are, and the tokens between two
responses are taken from the chat template once. Templates that rewrite history (by dropping thoughts) thus cannot
corrupt it, and no special token has to be searched for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from envs.base import EnvSpec
from trainer.config.run import RolloutConfig

THINK, THINK_END, ANSWER, ANSWER_END = "<think>", "</think>", "<answer>", "</answer>"
ACTION_SEPARATOR = "||"
_STRIPPED = (THINK, THINK_END, ANSWER, ANSWER_END, "<|im_start|>", "<|im_end|>")
_MAX_TAG_LENGTH = max(map(len, _STRIPPED))
_FROM_THOUGHT_TO_ANSWER = re.compile(r"</think>\s*<answer>")


@dataclass(frozen=True)
class ParsedResponse:
    """A parsed response.

    `actions` are the first `max_actions` as written, whether or not they exist; `structured` is whether all tags are
    present; `problem` is the reason why the response cannot be executed.
    """

    text: str
    thought: str
    answer: str
    actions: tuple[str, ...]
    structured: bool
    problem: str | None


def parse_response(response: str, *, think: bool, max_actions: int) -> ParsedResponse:
    """Parse thought and actions of a sampled response.

    Args:
        response: the decoded sampled tokens, without the forced opening tag.
        think: whether the prompt ended with `<think>` (else `<answer>`).
        max_actions: further actions are dropped first.
    Returns:
        Never raises: an answer that cannot be parsed has no actions and a `problem`.
    """
    full = (THINK if think else ANSWER) + response
    parts = _parts(response, think)
    if parts is None:
        return ParsedResponse(full, _rest(response), "", (), False, _structure_problem(full, think))
    thought, answer = map(_clean, parts)
    actions = [part for part in (piece.strip() for piece in answer.split(ACTION_SEPARATOR)) if part]
    if len(actions) > max_actions:
        actions = actions[:max_actions]
        answer = f" {ACTION_SEPARATOR} ".join(actions)
    opening = f"{THINK}{thought}{THINK_END}" if think else ""
    return ParsedResponse(
        text=f"{opening}{ANSWER}{answer}{ANSWER_END}",
        thought=thought,
        answer=answer,
        actions=tuple(actions),
        structured=True,
        problem=None if actions else "the answer names no action",
    )


def _parts(response: str, think: bool) -> tuple[str, str] | None:
    """Thought and answer as written; None if tags are missing. One pass, however often tags are repeated."""
    thought, start = "", 0
    if think:
        border = _FROM_THOUGHT_TO_ANSWER.search(response)
        if border is None:
            return None
        thought, start = response[: border.start()], border.end()
    end = response.find(ANSWER_END, start)
    return None if end < 0 else (thought, response[start:end])


def _clean(text: str) -> str:
    """The text without tags and surrounding whitespace."""
    for token in _STRIPPED:
        text = text.replace(token, "")
    if any(token in text for token in _STRIPPED):
        text = _without_composed_tags(text)
    return text.strip()


def _without_composed_tags(text: str) -> str:
    """The text after removing also tags that the removal of another one has formed: <thi<x>nk>."""
    characters: list[str] = []
    for character in text:
        characters.append(character)
        if character == ">":
            end = "".join(characters[-_MAX_TAG_LENGTH:])
            closed = next((token for token in _STRIPPED if end.endswith(token)), "")
            del characters[len(characters) - len(closed) :]
    return "".join(characters)


def _rest(response: str) -> str:
    return _clean(response.split(THINK_END)[0])


def _structure_problem(full: str, think: bool) -> str:
    if think and THINK_END not in full:
        return "the thought is not closed with </think>"
    if ANSWER not in full:
        return "there is no <answer>"
    if ANSWER_END not in full:
        return "the answer is not closed with </answer>"
    return "<answer> does not follow </think>"


SYSTEM = "You solve tasks step by step."


def opening_message(spec: EnvSpec, rollout: RolloutConfig, instruction: str | None = None) -> str:
    """The part of the first user message that comes before the first state."""
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
    """User message of a turn: the last turn's reward, the state, the actions left."""
    reward = "" if last_reward is None else f"Reward: {last_reward:g}\n"
    return f"{reward}Turn {turn + 1}:\n{state}\nActions left: {actions_left}"


class TemplateError(ValueError):
    """The chat template cannot render a dialogue of several turns. The message says why."""


class ChatFormat:
    """Framing of turns by a tokenizer's chat template, derived from the rendered template.

    `opening` returns all tokens before the first sampled one, `between` all tokens between a response's end token and
    the next sampled one. Both end with the forced opening tag (`<think>` or `<answer>`), which is never sampled.
    `eos_id` is the token that closes an assistant's turn in the template, not always the tokenizer's end token.
    """

    _MARK_ASSISTANT, _MARK_USER = "ASSISTANT-TURN-HERE", "USER-TURN-HERE"

    def __init__(self, tokenizer: Any, *, think: bool) -> None:
        self.tokenizer = tokenizer
        rendered = self._render(
            [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": self._MARK_ASSISTANT},
                {"role": "user", "content": self._MARK_USER},
            ]
        )
        _, found, tail = rendered.partition(self._MARK_ASSISTANT)
        before_user, found_user, self._after_user = tail.partition(self._MARK_USER)
        if not (found and found_user):
            raise TemplateError("the model's chat template drops messages: it cannot build dialogues of several turns")
        # The template closes the assistant's turn with its end token, which the policy samples unless it is cut.
        self.eos_id, self._before_user = self._split_end(before_user)
        tag = THINK if think else ANSWER
        self.forced = "" if self._after_user.rstrip().endswith(tag) else tag  # templates of reasoning models contain it

    def _split_end(self, tail: str) -> tuple[int, str]:
        """The token that ends a response, and what follows it before the next user message."""
        added = self.tokenizer.added_tokens_decoder
        special = {token.content: number for number, token in added.items() if token.special}
        closing = tail.lstrip()
        for content in sorted(special, key=len, reverse=True):
            if closing.startswith(content):
                return special[content], closing.removeprefix(content)
        if self.tokenizer.eos_token_id is None:
            raise TemplateError("the model's tokenizer has no end-of-sequence token, so a response could never end")
        return int(self.tokenizer.eos_token_id), tail

    def _render(self, messages: list[dict[str, str]]) -> str:
        try:
            text: str = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # templates raise their own errors, e.g. "System role not supported"
            if messages[0]["role"] != "system":
                raise TemplateError(f"the model's chat template cannot render a dialogue: {error}") from error
            merged = {"role": "user", "content": messages[0]["content"] + "\n\n" + messages[1]["content"]}
            return self._render([merged, *messages[2:]])
        return text

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def opening(self, user: str) -> list[int]:
        """Token ids of system and first user message, up to where sampling starts."""
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]
        return self._encode(self._render(messages) + self.forced)

    def between(self, user: str, *, ended: bool) -> list[int]:
        """Token ids that follow a response and carry the next user message.

        Args:
            user: the next user message.
            ended: whether the response's last sampled token is the end token; if it was cut, the end token is added
                here, neither sampled nor trained on.
        """
        text = self._before_user + user + self._after_user + self.forced
        return self._encode(text) if ended else [self.eos_id, *self._encode(text)]

    def decode(self, ids: list[int]) -> str:
        """Text of sampled ids without the end token; NUL, which databases reject, is replaced."""
        if ids and ids[-1] == self.eos_id:
            ids = ids[:-1]
        text: str = self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
