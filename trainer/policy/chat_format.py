"""Chat format of a model: turns to token ids and back, by the tokenizer's chat template.

The history of a trajectory is only ever extended: sampled tokens stay as they are, and the tokens between two
responses are taken from the chat template once. Templates that rewrite history (by dropping thoughts) thus cannot
corrupt it, and no special token has to be searched for.
"""

from __future__ import annotations

from typing import Any

from trainer.config.rollout import SYSTEM

THINK, THINK_END, ANSWER, ANSWER_END = "<think>", "</think>", "<answer>", "</answer>"


class TemplateError(ValueError):
    """A chat template that cannot format dialogues of several turns. The message says why."""


class ChatFormat:
    """Format of turns of one tokenizer, derived from its chat template.

    `opening` returns all tokens before the first sampled one, `between` all tokens between a response's end token and
    the next sampled one. Both end with the forced opening tag (`<think>` or `<answer>`), which is never sampled.
    `eos_id` closes an assistant's turn in the template; it is not always the tokenizer's own end token.

    Args:
        tokenizer: with a chat template.
        think: whether responses contain a thought.
        system: the system message; empty = none. A template without a system role gets it in the first user message.
    Raises:
        TemplateError: the template cannot format dialogues, or the system message contains one of its special tokens.
    """

    _MARK_ASSISTANT, _MARK_USER = "ASSISTANT-TURN-HERE", "USER-TURN-HERE"

    def __init__(self, tokenizer: Any, *, think: bool, system: str = SYSTEM) -> None:
        self.tokenizer, self.system = tokenizer, system
        self._check_system()
        rendered = self._render(
            [
                *([{"role": "system", "content": "x"}] if system else []),
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": self._MARK_ASSISTANT},
                {"role": "user", "content": self._MARK_USER},
            ]
        )
        _, assistant_mark, tail = rendered.partition(self._MARK_ASSISTANT)
        before_user, user_mark, self._after_user = tail.partition(self._MARK_USER)
        if not (assistant_mark and user_mark):
            raise TemplateError("the model's chat template drops messages: it cannot build dialogues of several turns")
        # The template closes the assistant's turn with its end token, which the policy samples itself unless cut.
        self.eos_id, self._before_user = self._split_end(before_user)
        tag = THINK if think else ANSWER
        self.forced = "" if self._after_user.rstrip().endswith(tag) else tag  # templates of reasoning models contain it

    def _check_system(self) -> None:
        """Raises TemplateError for a special token: encoding would take it for the end of the message."""
        for token in self.tokenizer.added_tokens_decoder.values():
            if token.special and token.content and token.content in self.system:
                raise TemplateError(
                    f"rollout.system contains {token.content}, a special token of the model's tokenizer: remove it"
                )

    def _split_end(self, tail: str) -> tuple[int, str]:
        """The token that ends a response, and the text between it and the next user message."""
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
        except Exception as error:  # templates may raise any error, e.g. "System role not supported"
            if messages[0]["role"] != "system":
                raise TemplateError(f"the model's chat template cannot render a dialogue: {error}") from error
            merged = {"role": "user", "content": messages[0]["content"] + "\n\n" + messages[1]["content"]}
            return self._render([merged, *messages[2:]])
        return text

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def system_messages(self) -> list[dict[str, str]]:
        """The system message, as a list of at most one."""
        return [{"role": "system", "content": self.system}] if self.system else []

    def opening(self, user: str) -> list[int]:
        """Token ids of system and first user message, up to where sampling starts."""
        messages = [*self.system_messages(), {"role": "user", "content": user}]
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
        """Text of sampled ids without the end token, and without NUL, which databases refuse."""
        if ids and ids[-1] == self.eos_id:
            ids = ids[:-1]
        text: str = self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
