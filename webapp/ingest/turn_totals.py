"""Sums of turns that the ingest adds to the rows of their trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envs.claims.kinds import known_kind
from trainer.journal import events as journal


def turn_totals(turns: Sequence[journal.Turn]) -> list[dict[str, Any]]:
    """Sums of the turns for each trajectory; `false_claim_kinds` may name a kind several times."""
    totals: dict[str, dict[str, Any]] = {}
    for event in turns:
        total = totals.setdefault(
            event.trajectory,
            {"trajectory": event.trajectory, "turns": 0, "actions": 0, "tokens": 0, "reward": 0.0, "broken": False}
            | {"false_claim_kinds": []},
        )
        total["turns"] += 1
        total["actions"] += sum(action.status == "executed" for action in event.actions)
        total["tokens"] += event.tokens
        total["reward"] += event.reward
        total["broken"] = total["broken"] or not event.format_valid
        if event.claims is not None:
            true = sum(claim.true for claim in event.claims)
            total["true_claims"] = total.get("true_claims", 0) + true
            total["false_claims"] = total.get("false_claims", 0) + len(event.claims) - true
            total["false_claim_kinds"] += [known_kind(claim.kind) for claim in event.claims if not claim.true]
        total["seq"] = event.seq
    return list(totals.values())
