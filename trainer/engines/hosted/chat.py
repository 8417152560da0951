"""Dialogues with a model whose tokens nobody knows: messages as ids of bytes and marks, from which they come back.

With it everything that plays and records dialogues by token ids plays hosted models too. Nothing is asked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from trainer.policy.byte_alphabet import BYTE_OF
from trainer.policy.chat_format import ANSWER, SYSTEM, THINK, ChatFormat

SYSTEM_MARK, USER_MARK, ASSISTANT_MARK, END = 256, 257, 258, 259
_ROLES = {SYSTEM_MARK: "system", USER_MARK: "user", ASSISTANT_MARK: "assistant"}
_MARKS = 4
_SPELT = {byte: character for character, byte in BYTE_OF.items()}

Message = dict[str, str]
"""`role` and `content`, as an endpoint takes them."""


class InternedTokens:
    """Ids: 0 to 255 are bytes, then the marks, then the endpoint's tokens in the order in which they were first seen.

    It stands where a tokenizer would, as far as one is asked for the texts of ids.
    """

    added_tokens_decoder: dict[int, Any] = {}

    def __init__(self) -> None:
        self._of: list[bytes] = [bytes([byte]) for byte in range(256)] + [b""] * _MARKS
        self._id = {piece: number for number, piece in enumerate(self._of[:256])}

    def encode(self, text: str) -> list[int]:
        """A text byte by byte; what no UTF-8 can hold becomes a question mark."""
        return list(text.encode("utf-8", "replace"))

    def intern(self, pieces: Iterable[bytes]) -> list[int]:
        """Ids of tokens by what they spell. A token of one byte has that byte's id."""
        found = []
        for piece in pieces:
            number = self._id.get(piece)
            if number is None:
                number = self._id[piece] = len(self._of)
                self._of.append(piece)
            found.append(number)
        return found

    def spell(self, ids: Iterable[int]) -> bytes:
        """What the ids spell; marks spell nothing."""
        return b"".join(self._of[token] for token in ids)

    def decode(self, ids: Iterable[int], **_: Any) -> str:
        return self.spell(ids).decode("utf-8", "replace")

    def convert_ids_to_tokens(self, token: int) -> str:
        """In the alphabet of byte-level tokenizers."""
        return "".join(_SPELT[byte] for byte in self._of[token])


class HostedChat(ChatFormat):
    """A `ChatFormat` without a template: the endpoint has one, and what it is given are messages.

    Args:
        think: whether a thought is asked for.
        prefill: whether responses are begun with their opening tag; else the model writes that itself.
    """

    def __init__(self, *, think: bool, prefill: bool) -> None:
        self.pieces = InternedTokens()
        self.tokenizer = self.pieces
        self.eos_id = END
        self.forced = (THINK if think else ANSWER) if prefill else ""

    def opening(self, user: str) -> list[int]:
        encode = self.pieces.encode
        return [SYSTEM_MARK, *encode(SYSTEM), END, *self._turn(user)]

    def between(self, user: str, *, ended: bool) -> list[int]:
        """As in `ChatFormat`. Responses carry no end token: an endpoint says that it ended, and samples it unseen."""
        return [END, *self._turn(user)]

    def _turn(self, user: str) -> list[int]:
        encode = self.pieces.encode
        return [USER_MARK, *encode(user), END, ASSISTANT_MARK, *encode(self.forced)]

    def decode(self, ids: list[int]) -> str:
        return self.pieces.decode(ids).replace("\0", "\N{REPLACEMENT CHARACTER}")

    def messages(self, ids: Sequence[int]) -> list[Message]:
        """The messages that a dialogue's ids stand for; a last one that is only begun is there if it holds a text."""
        found: list[Message] = []
        role, start = "", 0
        for place, token in enumerate(ids):
            if token in _ROLES:
                role, start = _ROLES[token], place + 1
            elif token == END and role:
                found.append({"role": role, "content": self.pieces.decode(ids[start:place])})
                role = ""
        if role and start < len(ids):
            found.append({"role": role, "content": self.pieces.decode(ids[start:])})
        return found
