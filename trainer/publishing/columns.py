"""Columns of trajectories in Parquet files of a data set; the site's exports add a few."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

Feature = str | dict[str, Any] | list[Any]
"""Type of a column: a type name of Arrow, a mapping of fields (a struct), a list with the type of its items, or a list
with the types of a map's keys and values."""

ACTION: dict[str, Feature] = {
    "text": "string",
    "status": "string",
    "name": "string",
    "reward": "float64",
    "effective": "bool",
    "actual": "string",
    "board": "string",
    "hint": "string",
    "call": {"tool": "string", "arguments": "string", "result": "string", "failed": "bool"},
}
TURN: dict[str, Feature] = {
    "turn": "int32",
    "state": "string",
    "response": "string",
    "thought": "string",
    "answer": "string",
    "format_valid": "bool",
    "problem": "string",
    "reward": "float64",
    "terms": [{"name": "string", "value": "float64"}],
    "tokens": "int32",
    "truncated": "bool",
    "entropy": "float64",
    "logprob": "float64",
    "actions": [ACTION],
}
COLUMNS: dict[str, Feature] = {
    "id": "string",
    "attempt": "int32",
    "environment": "string",
    "suite": "string",
    "iteration": "int32",
    "group": "int32",
    "member": "int32",
    "seed": "int64",
    "success": "bool",
    "end": "string",
    "total_reward": "float64",
    "lost_turn": "int32",
    "lost_action": "int32",
    "lost_reason": "string",
    "turn_count": "int32",
    "action_count": "int32",
    "token_count": "int32",
    "error": "string",
    "group_mean": "float64",
    "group_std": "float64",
    "group_kept": "bool",
    "prompt": "string",
    "board": "string",
    "hint": "string",
    "turns": [TURN],
}


def arrow_schema(columns: Mapping[str, Feature], **metadata: str) -> Any:
    """Return the columns as a schema of Arrow."""
    pa = import_module("pyarrow")

    def kind(feature: Feature) -> Any:
        if isinstance(feature, dict):
            return pa.struct([(name, kind(inner)) for name, inner in feature.items()])
        if isinstance(feature, list):
            return pa.map_(*map(kind, feature)) if len(feature) == 2 else pa.list_(kind(feature[0]))
        return pa.type_for_alias(feature)

    fields = [(name, kind(feature)) for name, feature in columns.items()]
    return pa.schema(fields, metadata=metadata)
