"""End of a response after a text, found in its token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class StopText:
    """Finds the token that completes a text in a response, however the text was tokenised.

    Subword tokens cut the text anywhere, and its last characters may share a token with those that follow (`>.`). The
    response then ends after that token: sampled tokens are never split, so that their log-probabilities stay exact.

    Args:
        text: ends the response; ASCII, so that no token contains only a part of one of its characters.
        tokenizer: decodes ids.
    """

    def __init__(self, text: str, tokenizer: Any) -> None:
        self.text, self.tokenizer = text, tokenizer
        self._closing: dict[int, bool] = {}  # by token: whether it contains the last character of the text

    def length(self, ids: Sequence[int], checked: int = 0) -> int | None:
        """Number of tokens up to and including the one that completes the text; None where the text is incomplete.

        Args:
            ids: of the response so far.
            checked: number of leading tokens in which the text is known to be incomplete.
        """
        for place in range(checked, len(ids)):
            if self._may_close(ids[place]) and self._is_complete(ids[: place + 1]):
                return place + 1
        return None

    def _may_close(self, token: int) -> bool:
        known = self._closing.get(token)
        if known is None:
            known = self._closing[token] = self.text[-1] in self._decode([token])
        return known

    def _is_complete(self, ids: Sequence[int]) -> bool:
        """Whether the text ends within the last token. Few tokens are decoded, as this is asked at every `>`."""
        size = len(self.text)
        needed = size + len(self._decode(ids[-1:]))
        count = size
        while len(tail := self._decode(ids[-count:])) < needed and count < len(ids):  # some tokens have no text
            count *= 2
        return self.text in tail

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text
