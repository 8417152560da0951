"""Sums over turns that the ingest adds to the rows of their trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envs.claims.kinds import known_kind
from trainer.journal import events as journal


def turn_totals(turns: Sequence[journal.Turn]) -> list[dict[str, Any]]:
    """Sum up the turns of each trajectory; `false_claim_kinds` may contain a kind several times.

    `tokens` is None if it is unknown for one of the turns; `broken` is None if no turn is known to break the format
    and not all were judged.
    """
    totals: dict[str, dict[str, Any]] = {}
    for event in turns:
        total = totals.setdefault(
            event.trajectory,
            {"trajectory": event.trajectory, "turns": 0, "actions": 0, "tokens": 0, "reward": 0.0, "broken": False}
            | {"false_claim_kinds": []},
        )
        total["turns"] += 1
        total["actions"] += sum(action.status == "executed" for action in event.actions)
        total["tokens"] = None if event.tokens is None or total["tokens"] is None else total["tokens"] + event.tokens
        total["reward"] += event.reward
        total["broken"] = _either(total["broken"], None if event.format_valid is None else not event.format_valid)
        if event.claims is not None:
            true = sum(claim.true for claim in event.claims)
            total["true_claims"] = total.get("true_claims", 0) + true
            total["false_claims"] = total.get("false_claims", 0) + len(event.claims) - true
            total["false_claim_kinds"] += [known_kind(claim.kind) for claim in event.claims if not claim.true]
        total["seq"] = event.seq
    return list(totals.values())


def _either(one: bool | None, other: bool | None) -> bool | None:
    """Return the three-valued OR, as in PostgreSQL: None means unknown."""
    if one or other:
        return True
    return None if one is None or other is None else False
