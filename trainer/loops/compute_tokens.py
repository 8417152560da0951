"""Tokens of a recorded attempt from a checkpoint: its dialogue as the rollout read it, scored by the policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import torch

from trainer.journal import token_arrays
from trainer.journal.computed_tokens import ComputedSegment, ComputedTokens
from trainer.journal.token_arrays import MAX_TOKENS, Context
from trainer.loops.recorded_attempts import (
    RecordedAttempt,
    RecordingError,
    choose_checkpoint,
    find_attempt,
    weights_source,
)
from trainer.policy.chat_format import ChatFormat
from trainer.policy.forward import PolicyForward
from trainer.policy.load import Policy, load
from trainer.policy.pocket import is_pocket
from trainer.rollout.reading_order import reading_order
from trainer.rollout.rebuilding import rebuild_dialogue, response_ids
from trainer.rollout.token_texts import TokenTexts
from trainer.rollout.trajectory import TokenSequence, Trajectory

_DIGITS = 6  # of log-probabilities; float32 has about as many

Scores = list[float | None]


def compute_tokens(folder: Path, trajectory: str, *, checkpoint: int | None = None, device: str = "") -> ComputedTokens:
    """Compute the tokens of an attempt, with log-probabilities and entropies under a checkpoint of its run.

    Args:
        folder: folder of the run.
        trajectory: id of the attempt in the journal.
        checkpoint: iteration; None: the weights that sampled the attempt, otherwise the nearest kept ones. 0 is the
            initial policy.
        device: device of the policy; empty: the run's.
    Raises:
        RecordingError: there is no such attempt or checkpoint, its policy is not here, or it has too many tokens.
        ModelError: the policy cannot be loaded.
        JournalError: the journal is broken.
    """
    attempt = find_attempt(folder, trajectory)
    config, wanted = attempt.config, attempt.sampled_after
    iteration = choose_checkpoint(folder, wanted) if checkpoint is None else checkpoint
    source = weights_source(folder, config, iteration)
    policy = load(source, config.policy.model_copy(update={"device": device} if device else {}))
    chat = ChatFormat.of_rollout(policy.tokenizer, config.rollout, policy.end_ids).with_tools(attempt.group.tools or ())
    texts = TokenTexts(chat)
    rebuilt = _rebuild(attempt, chat)
    order = reading_order(rebuilt, texts, in_loss=attempt.in_loss)
    if order is None or len(rebuilt.ids) > MAX_TOKENS:
        raise RecordingError(f"this attempt has more tokens than can be shown, which are {MAX_TOKENS:,}")
    temperature = attempt.temperature or 1.0  # of greedy sampling, whose log-probabilities are recorded untempered
    sequences = rebuilt.sequences()
    logprobs, entropies = _scores(policy, sequences, temperature)
    return ComputedTokens(
        trajectory=trajectory,
        checkpoint=iteration,
        sampled_after=wanted,
        temperature=temperature,
        segments=[ComputedSegment(**vars(segment)) for segment in order.segments],
        ids=[token for sequence in sequences for token in sequence.ids],
        texts=list(_texts(rebuilt, order, texts)),
        logprobs=logprobs,
        entropies=entropies,
    )


def _rebuild(attempt: RecordedAttempt, chat: ChatFormat) -> Trajectory:
    group, rollout = attempt.group, attempt.config.with_prompts(pocket=is_pocket(chat.tokenizer)).rollout
    member = group.members.index(attempt.trajectory)
    rebuilt = Trajectory(attempt.trajectory, group.group, member, turns=attempt.turns)
    stops = rollout.stops_at_answer
    responses = [response_ids(turn, chat, stops_at_answer=stops) for turn in attempt.turns]
    unknown = [(ids, [0.0] * len(ids)) for ids in responses]
    rebuild_dialogue(rebuilt, unknown, group.prompt, chat, rollout.context_turns)
    return rebuilt


def _texts(trajectory: Trajectory, order: Context, texts: TokenTexts) -> Iterator[str]:
    """Yield the text of each token in reading order; the end of a response is its token as the template writes it."""
    read = 0
    for (turn, sampled), group in groupby(order.segments, key=lambda segment: (segment.turn, segment.sampled)):
        count = sum(segment.tokens for segment in group)
        if not sampled:
            lengths, text = texts.decode(order.ids[read : read + count].tolist())
            read += count
            yield from token_arrays.cut(text, lengths)
            continue
        ids, response = trajectory.response(turn), trajectory.turns[turn].response
        *pieces, last = token_arrays.cut(response, texts.lengths(ids, response))
        yield from pieces
        yield last or (
            str(texts.chat.tokenizer.convert_ids_to_tokens(ids[-1])) if ids[-1] in texts.chat.end_ids else ""
        )


@torch.no_grad()
def _scores(policy: Policy, sequences: Sequence[TokenSequence], temperature: float) -> tuple[Scores, Scores]:
    """Return log-probabilities and entropies of all tokens; None for the first of each sequence."""
    network, device = PolicyForward(policy.model), policy.model.device
    logprobs: Scores = []
    entropies: Scores = []
    for sequence in sequences:
        ids = torch.tensor([sequence.ids], device=device)
        mask = torch.ones_like(ids, dtype=torch.bool)
        mask[0, 0] = False
        for scores, values in zip((logprobs, entropies), network(ids, mask, temperature), strict=True):
            scores += [None, *(round(value, _DIGITS) for value in values.float().tolist())]
    return logprobs, entropies
