"""End of a response at a stop text, detected in its token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class StopText:
    """Finds the token that completes a text in a response, regardless of the tokenisation.

    Subword tokens cut the text anywhere, and its last characters may share a token with later ones (`>.`). The response
    then ends after that token: sampled tokens are never split, so that their log-probabilities remain exact.

    Args:
        text: text that ends the response; ASCII, so that no token contains only a part of a character.
        tokenizer: decodes ids.
    """

    def __init__(self, text: str, tokenizer: Any) -> None:
        self.text, self.tokenizer = text, tokenizer
        self._closing: dict[int, bool] = {}  # by token: whether it contains the last character of the text

    def length(self, ids: Sequence[int], checked: int = 0) -> int | None:
        """Return the number of tokens up to the one that completes the text; None if the text is incomplete.

        Args:
            ids: ids of the response so far.
            checked: number of leading tokens that are known not to complete the text.
        """
        for position in range(checked, len(ids)):
            if self._may_close(ids[position]) and self._is_complete(ids[: position + 1]):
                return position + 1
        return None

    def _may_close(self, token: int) -> bool:
        known = self._closing.get(token)
        if known is None:
            known = self._closing[token] = self.text[-1] in self._decode([token])
        return known

    def _is_complete(self, ids: Sequence[int]) -> bool:
        """True if the text ends within the last token. Few tokens are decoded, as this is called at every `>`."""
        size = len(self.text)
        needed = size + len(self._decode(ids[-1:]))
        count = size
        while len(tail := self._decode(ids[-count:])) < needed and count < len(ids):  # some tokens decode to no text
            count *= 2
        return self.text in tail

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text
