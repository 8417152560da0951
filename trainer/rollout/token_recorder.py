"""Token recorder: selects trajectories for token records in the journal, and finds each token's text."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from trainer.config.run import JournalConfig
from trainer.journal import token_arrays
from trainer.journal.events import TrajectoryTokens
from trainer.journal.token_arrays import Unlearned
from trainer.policy.byte_alphabet import BYTE_OF
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.trajectory import Batch, Trajectory

_WINDOW = 6  # tokens decoded together with a token, unless the tokenizer is byte-level


class TokenRecorder:
    """Creates the `trajectory_tokens` events of one run."""

    def __init__(self, config: JournalConfig, chat: ChatFormat) -> None:
        self.keep = config.tokens
        self.texts = TokenTexts(chat)

    def evaluated(self, trajectories: Sequence[Trajectory]) -> Iterator[TrajectoryTokens]:
        """Yield the events of an evaluation."""
        if self.keep != "none":
            for trajectory in trajectories:
                yield from self._event(trajectory, "evaluation")

    def learned(
        self,
        trajectories: Sequence[Trajectory],
        kept: Sequence[Trajectory],
        batch: Batch | None,
        advantages: Tensor | None,
    ) -> Iterator[TrajectoryTokens]:
        """Yield the events of a training rollout, after its update.

        Args:
            trajectories: all trajectories of the rollout.
            kept: trajectories in the batch, in its order.
            batch: batch of the update; None if it was skipped.
            advantages: (B, T) of the batch; None if the update was skipped.
        """
        if self.keep == "none":
            return
        if batch is None or advantages is None:
            learned: Mapping[str, Any] = dict.fromkeys(trajectory.id for trajectory in kept)
        else:
            learned = by_trajectory(kept, batch, advantages)
        for trajectory in trajectories:
            if trajectory.id in learned:
                yield from self._event(trajectory, "no_update", learned[trajectory.id])
            elif self.keep == "all":
                yield from self._event(trajectory, "broken" if trajectory.failed else "dropped")

    def _event(
        self, trajectory: Trajectory, unlearned: Unlearned, advantages: Any | None = None
    ) -> Iterator[TrajectoryTokens]:
        """Return the event of a trajectory; None without sampled tokens, or if the engine did not report them."""
        turn_of = np.asarray(trajectory.turn_of)
        sampled = turn_of >= 0
        logprobs, entropies = np.asarray(trajectory.logprobs)[sampled], np.asarray(trajectory.entropies)[sampled]
        if not sampled.any() or np.isnan(logprobs).any():
            return
        turns = np.bincount(turn_of[sampled], minlength=len(trajectory.turns)).tolist()
        ids = np.asarray(trajectory.ids)[sampled].tolist()
        lengths: list[int] = []
        for turn, count in zip(trajectory.turns, turns, strict=True):
            lengths += self.texts.lengths(ids[len(lengths) : len(lengths) + count], turn.response)
        packed = token_arrays.arrays(
            turns=turns,
            ids=ids,
            lengths=lengths,
            logprobs=logprobs,
            entropies=None if np.isnan(entropies).any() else entropies,
            advantages=advantages,
            unlearned=unlearned if advantages is None else None,
        )
        yield TrajectoryTokens(
            trajectory=trajectory.id,
            tokens=len(ids),
            unlearned=packed.unlearned,
            data=token_arrays.pack(packed),
        )


def by_trajectory(kept: Sequence[Trajectory], batch: Batch, advantages: Tensor) -> Mapping[str, Any]:
    """Map each trajectory to its advantages in sampling order, which is the order of the batch's rows."""
    flat = advantages[batch.mask].float().cpu().numpy()
    ends = np.cumsum([trajectory.tokens for trajectory in kept])[:-1]
    return {trajectory.id: part for trajectory, part in zip(kept, np.split(flat, ends), strict=True)}


class TokenTexts:
    """Counts the characters of a response that each of its tokens completes.

    Byte-level tokenizers, nearly all of today's, represent the bytes of a token as characters; a character of the text
    may need several tokens. With other tokenizers the text is decoded a few tokens at a time.
    """

    def __init__(self, chat: ChatFormat) -> None:
        self.chat = chat
        self._bytes: dict[int, bytes] = {}
        self._added = {number: token.content for number, token in chat.tokenizer.added_tokens_decoder.items()}

    def lengths(self, ids: Sequence[int], text: str) -> list[int]:
        """Return the count of each token; the sum is the text's length in code points."""
        content = ids[:-1] if ids and ids[-1] in self.chat.end_ids else ids
        tokens = [self._get_bytes(token) for token in content]
        if all(map(bytes.isascii, tokens)):
            lengths, decoded = [len(token) for token in tokens], b"".join(tokens).decode()
        else:
            lengths, decoded = _characters(tokens)
        if decoded.replace("\0", "\N{REPLACEMENT CHARACTER}") != text:
            lengths = self._lengths_by_decoding(content, len(text))
        return lengths + [0] * (len(ids) - len(content))

    def _get_bytes(self, token: int) -> bytes:
        cached = self._bytes.get(token)
        if cached is None:
            cached = self._bytes[token] = self._encode(token)
        return cached

    def _encode(self, token: int) -> bytes:
        if token in self._added:
            return str(self._added[token]).encode()
        text: str = self.chat.tokenizer.convert_ids_to_tokens(token) or ""
        try:
            return bytes(BYTE_OF[character] for character in text)
        except KeyError:
            return text.encode()

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
