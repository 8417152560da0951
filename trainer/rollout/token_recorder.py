"""Which trajectories' tokens the journal keeps, and how each token's text is found. Packing is token_arrays.py's."""

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


class TokenRecorder:
    """Makes the `trajectory_tokens` events of one run."""

    def __init__(self, config: JournalConfig, chat: ChatFormat) -> None:
        self.keep = config.tokens
        self.pieces = TokenTexts(chat)

    def evaluated(self, trajectories: Sequence[Trajectory]) -> Iterator[TrajectoryTokens]:
        """Of an evaluation, from which nothing is learned."""
        if self.keep != "none":
            for trajectory in trajectories:
                yield from self._event(trajectory, "evaluation")

    def learned(
        self, trajectories: Sequence[Trajectory], kept: Sequence[Trajectory], batch: Batch, advantages: Tensor | None
    ) -> Iterator[TrajectoryTokens]:
        """Of a rollout, after its update.

        Args:
            trajectories: all that were played.
            kept: those in the batch, in its order.
            advantages: (B, T) of the batch, or None if the update was skipped.
        """
        if self.keep == "none":
            return
        if advantages is None:
            known: Mapping[str, Any] = dict.fromkeys(trajectory.id for trajectory in kept)
        else:
            known = by_trajectory(kept, batch, advantages)
        for trajectory in trajectories:
            if trajectory.id in known:
                yield from self._event(trajectory, "no_update", known[trajectory.id])
            elif self.keep == "all":
                yield from self._event(trajectory, "broken" if trajectory.failed else "dropped")

    def _event(
        self, trajectory: Trajectory, unlearned: Unlearned, advantages: Any | None = None
    ) -> Iterator[TrajectoryTokens]:
        """Nothing for a trajectory that was never continued: its environment broke down before the first response; and
        nothing for one whose tokens the engine did not tell.
        """
        turn_of = np.asarray(trajectory.turn_of)
        drawn = turn_of >= 0
        logprobs, entropies = np.asarray(trajectory.logprobs)[drawn], np.asarray(trajectory.entropies)[drawn]
        if not drawn.any() or np.isnan(logprobs).any():
            return
        turns = np.bincount(turn_of[drawn], minlength=len(trajectory.turns)).tolist()
        ids = np.asarray(trajectory.ids)[drawn].tolist()
        lengths: list[int] = []
        for turn, count in zip(trajectory.turns, turns, strict=True):
            lengths += self.pieces.lengths(ids[len(lengths) : len(lengths) + count], turn.response)
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
    """Each trajectory's advantages in the order in which its tokens were drawn: the batch's rows are in that order."""
    flat = advantages[batch.mask].float().cpu().numpy()
    ends = np.cumsum([trajectory.tokens for trajectory in kept])[:-1]
    return {trajectory.id: part for trajectory, part in zip(kept, np.split(flat, ends), strict=True)}


class TokenTexts:
    """How many characters of a response each of its tokens completes.

    Byte-level tokenizers, nearly all of today's, write a token as characters that stand for bytes; a character of the
    text may need several tokens. For others the text is decoded a few tokens at a time.
    """

    def __init__(self, chat: ChatFormat) -> None:
        self.chat = chat
        self._bytes: dict[int, bytes] = {}
        self._added = {number: token.content for number, token in chat.tokenizer.added_tokens_decoder.items()}

    def lengths(self, ids: Sequence[int], text: str) -> list[int]:
        """By token; their sum is the text's length in code points."""
        written = ids[:-1] if ids and ids[-1] == self.chat.eos_id else ids
        pieces = [self._of(token) for token in written]
        if all(map(bytes.isascii, pieces)):
            found, whole = [len(piece) for piece in pieces], b"".join(pieces).decode()
        else:
            found, whole = _characters(pieces)
        if whole.replace("\0", "\N{REPLACEMENT CHARACTER}") != text:
            found = self._decoded(written, len(text))
        return found + [0] * (len(ids) - len(written))

    def _of(self, token: int) -> bytes:
        known = self._bytes.get(token)
        if known is None:
            known = self._bytes[token] = self._spelt(token)
        return known

    def _spelt(self, token: int) -> bytes:
        if token in self._added:
            return str(self._added[token]).encode()
        spelt: str = self.chat.tokenizer.convert_ids_to_tokens(token) or ""
        try:
            return bytes(BYTE_OF[character] for character in spelt)
        except KeyError:
            return spelt.encode()

    def _decoded(self, ids: Sequence[int], total: int) -> list[int]:
        """For tokenizers of other kinds: a short window is decoded with and without each token."""
        found, before = [], 0
        for index in range(len(ids)):
            start = max(0, index - _WINDOW)
            longer = len(self._plain(ids[start : index + 1])) - len(self._plain(ids[start:index]))
            length = max(0, min(longer, total - before))
            found.append(length)
            before += length
        if found:
            found[-1] += total - before
        return found

    def _plain(self, ids: Sequence[int]) -> str:
        text: str = self.chat.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text.removesuffix("\N{REPLACEMENT CHARACTER}")


_WINDOW = 6


def _characters(pieces: Sequence[bytes]) -> tuple[list[int], str]:
    """Characters that each piece of UTF-8 completes, and the text; what is no UTF-8 becomes replacement characters."""
    reader = codecs.getincrementaldecoder("utf-8")("replace")
    parts = [reader.decode(piece, index == len(pieces) - 1) for index, piece in enumerate(pieces)]
    return [len(part) for part in parts], "".join(parts)
