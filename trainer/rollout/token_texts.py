"""Texts of tokens: which characters each token completes, and whether its text encodes to it again."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from itertools import accumulate

from trainer.policy.byte_alphabet import BYTE_OF
from trainer.policy.chat_format import ChatFormat

_WINDOW = 6  # tokens decoded together with a token, unless its bytes are known
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")  # SentencePiece's notation of a byte
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's space


class TokenTexts:
    """Counts the characters of a text that each of its tokens completes.

    The bytes of a token are known for byte-level tokenizers, nearly all of today's, and for most of SentencePiece; a
    character of the text may need several tokens. Where these bytes do not give the text, it is decoded a few tokens at
    a time.
    """

    def __init__(self, chat: ChatFormat) -> None:
        self.chat = chat
        self._bytes: dict[int, bytes] = {}
        self._added = {number: token.content for number, token in chat.tokenizer.added_tokens_decoder.items()}

    def lengths(self, ids: Sequence[int], text: str) -> list[int]:
        """Return the count of each token; the sum is the text's length in code points."""
        content = self._content(ids)
        lengths, decoded = self.decode(content)
        if decoded != text:
            lengths = self._lengths_by_decoding(content, len(text))
        return lengths + [0] * (len(ids) - len(content))

    def decode(self, ids: Sequence[int]) -> tuple[list[int], str]:
        """Return the characters that each token completes, and the text as the tokens' bytes give it, without NUL."""
        tokens = [self._get_bytes(token) for token in ids]
        if all(map(bytes.isascii, tokens)):
            lengths, decoded = [len(token) for token in tokens], b"".join(tokens).decode()
        else:
            lengths, decoded = _characters(tokens)
        return lengths, decoded.replace("\0", "\N{REPLACEMENT CHARACTER}")

    def retokenised(self, response: Sequence[int], text: str) -> list[bool]:
        """Return for each sampled token whether the response's text has another token at its place.

        The text is encoded behind the forced tag, as a trainer would that builds its batch from messages. End tokens
        are not part of the text.
        """
        content, forced = self._content(response), self.chat.forced
        encoded = self.chat.tokenizer.encode(forced + text, add_special_tokens=False)
        if encoded[-len(content) :] == list(content):
            return [False] * len(response)
        again = set(self._places(encoded))
        return [place not in again for place in self._places(content)] + [False] * (len(response) - len(content))

    def _content(self, ids: Sequence[int]) -> Sequence[int]:
        return ids[:-1] if ids and ids[-1] in self.chat.end_ids else ids

    def _places(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return (bytes from the token's start to the end of the text, id) of each token."""
        sizes = [len(self._get_bytes(token)) for token in ids]
        behind = list(accumulate(reversed(sizes)))[::-1]
        return list(zip(behind, ids, strict=True))

    def _get_bytes(self, token: int) -> bytes:
        cached = self._bytes.get(token)
        if cached is None:
            cached = self._bytes[token] = self._encode(token)
        return cached

    def _encode(self, token: int) -> bytes:
        if token in self._added:
            return str(self._added[token]).encode()
        text: str = self.chat.tokenizer.convert_ids_to_tokens(token) or ""
        if byte := _BYTE_TOKEN.fullmatch(text):
            return bytes.fromhex(byte[1])
        try:
            return bytes(BYTE_OF[character] for character in text)
        except KeyError:
            return text.replace(_SPACE, " ").encode()

    def _lengths_by_decoding(self, ids: Sequence[int], total: int) -> list[int]:
        """Decode a short window with and without each token, for tokenizers that are not byte-level."""
        lengths, assigned = [], 0
        for index in range(len(ids)):
            start = max(0, index - _WINDOW)
            longer = len(self._decode(ids[start : index + 1])) - len(self._decode(ids[start:index]))
            length = max(0, min(longer, total - assigned))
            lengths.append(length)
            assigned += length
        if lengths:
            lengths[-1] += total - assigned
        return lengths

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self.chat.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text.removesuffix("\N{REPLACEMENT CHARACTER}")


def _characters(tokens: Sequence[bytes]) -> tuple[list[int], str]:
    """Count the characters that each token completes, and decode the text with replacements for invalid UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    parts = [decoder.decode(token, index == len(tokens) - 1) for index, token in enumerate(tokens)]
    return [len(part) for part in parts], "".join(parts)
