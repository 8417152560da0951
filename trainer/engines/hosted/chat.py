"""Chat format of hosted models: messages ⇄ ids of bytes, role marks and interned tokens.

It lets hosted models, whose tokenizer is unknown, use the rollout and token recording of all other engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from trainer.config.rollout import SYSTEM
from trainer.policy.byte_alphabet import BYTE_OF
from trainer.policy.chat_format import ANSWER, THINK, ChatFormat, Role

SYSTEM_MARK, USER_MARK, ASSISTANT_MARK, END = 256, 257, 258, 259
_ROLES = {SYSTEM_MARK: "system", USER_MARK: "user", ASSISTANT_MARK: "assistant"}
_MARKS = 4
_CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}

Message = dict[str, str]
"""`role` and `content`, as in the API."""


class InternedTokens:
    """Stand-in for a tokenizer. Ids 0 to 255 are bytes, then the marks, then tokens in order of first use."""

    added_tokens_decoder: dict[int, Any] = {}

    def __init__(self) -> None:
        self._bytes_of: list[bytes] = [bytes([byte]) for byte in range(256)] + [b""] * _MARKS
        self._id_of = {token: number for number, token in enumerate(self._bytes_of[:256])}

    def encode(self, text: str) -> list[int]:
        """A text byte by byte; characters that UTF-8 cannot encode become a question mark."""
        return list(text.encode("utf-8", "replace"))

    def intern(self, tokens: Iterable[bytes]) -> list[int]:
        """Ids of tokens by their bytes. A token of one byte has that byte's id."""
        ids = []
        for token in tokens:
            number = self._id_of.get(token)
            if number is None:
                number = self._id_of[token] = len(self._bytes_of)
                self._bytes_of.append(token)
            ids.append(number)
        return ids

    def to_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of the ids; marks have none."""
        return b"".join(self._bytes_of[token] for token in ids)

    def decode(self, ids: Iterable[int], **_: Any) -> str:
        return self.to_bytes(ids).decode("utf-8", "replace")

    def convert_ids_to_tokens(self, token: int) -> str:
        """In the alphabet of byte-level tokenizers."""
        return "".join(_CHARACTER_OF[byte] for byte in self._bytes_of[token])


class HostedChat(ChatFormat):
    """A `ChatFormat` without a template: the endpoint applies its own to the messages.

    Args:
        think: whether responses contain a thought.
        prefill: whether the prompt includes the opening tag of the response; else the model writes it.
        system: the system message; empty = none.
    """

    def __init__(self, *, think: bool, prefill: bool, system: str = SYSTEM) -> None:
        self.system = system
        self.tokens = InternedTokens()
        self.tokenizer = self.tokens
        self.eos_id = END
        self.forced = (THINK if think else ANSWER) if prefill else ""

    def opening(self, user: str) -> list[int]:
        if not self.system:
            return self._turn(user)
        return [SYSTEM_MARK, *self.tokens.encode(self.system), END, *self._turn(user)]

    def between(self, user: str, *, ended: bool, role: Role = "user") -> list[int]:
        """As in `ChatFormat`, with results of calls as messages of the user.

        Responses never contain the end token: endpoints report the end without it.
        """
        return [END, *self._turn(user)]

    def _turn(self, user: str) -> list[int]:
        return [USER_MARK, *self.tokens.encode(user), END, ASSISTANT_MARK, *self.tokens.encode(self.forced)]

    def decode(self, ids: list[int]) -> str:
        return self.tokens.decode(ids).replace("\0", "\N{REPLACEMENT CHARACTER}")

    def messages(self, ids: Sequence[int]) -> list[Message]:
        """The messages of a dialogue's ids; an unfinished last one is included if it has content."""
        messages: list[Message] = []
        role, start = "", 0
        for place, token in enumerate(ids):
            if token in _ROLES:
                role, start = _ROLES[token], place + 1
            elif token == END and role:
                messages.append({"role": role, "content": self.tokens.decode(ids[start:place])})
                role = ""
        if role and start < len(ids):
            messages.append({"role": role, "content": self.tokens.decode(ids[start:])})
        return messages
