"""Tokens of TRL's GRPO and RLOO trainers, as these prepared them for their loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from echoscope.integrations.token_pieces import TokenPieces
from echoscope.recording.trajectory import Trajectory

METHOD = "_generate_and_score_completions"
"""Method of the trainers that returns the batch of the loss; not part of TRL's public interface."""


def send_tokens(
    batch: Mapping[str, Any], attempts: Sequence[Trajectory], lengths: Sequence[int], pieces: TokenPieces
) -> None:
    """Record the tokens of each row of a batch, as the trainer returned it.

    Args:
        batch: prompt_ids and prompt_mask (B, P), completion_ids and completion_mask (B, C), advantages (B,) or (B, C);
            where there are, tool_mask, sampling_per_token_logps and old_per_token_logps (B, C).
        attempts: recorded attempts by row; `lengths`: their numbers of sampled tokens, before padding.
    """
    for row, (attempt, length) in enumerate(zip(attempts, lengths, strict=True)):
        column = _columns(batch, row, length)
        prompt = [
            token
            for token, real in zip(_row(batch, "prompt_ids", row), _row(batch, "prompt_mask", row), strict=True)
            if real
        ]
        ids = [*prompt, *column("completion_ids")]
        before = [0] * len(prompt)
        mask, tools = column("completion_mask"), column("tool_mask") or [1] * length
        sampled = [*before, *tools]

        def values(name: str, column: Callable[[str], list[Any]] = column, before: list[int] = before) -> Any:
            found = column(name)
            return [*before, *found] if found else None

        advantage = batch["advantages"][row].tolist()
        attempt.tokens(
            ids,
            sampled=sampled,
            texts=pieces.texts(ids),
            in_loss=[*before, *(bool(own and tool) for own, tool in zip(mask, tools, strict=True))],
            logprobs=values("sampling_per_token_logps"),
            trainer_logprobs=values("old_per_token_logps"),
            advantages=[*before, *(advantage[:length] if isinstance(advantage, list) else [advantage] * length)],
        )


def _row(batch: Mapping[str, Any], name: str, row: int) -> list[Any]:
    values: list[Any] = batch[name][row].tolist()
    return values


def _columns(batch: Mapping[str, Any], row: int, length: int) -> Callable[[str], list[Any]]:
    """Return a function from the name of a (B, C) tensor to the row's first `length` numbers; [] without the tensor."""
    return lambda name: _row(batch, name, row)[:length] if batch.get(name) is not None else []
