"""A run's trajectories as a data set: Parquet files by split, and a dataset card with features and counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from trainer.journal.events import ActionRecord
from trainer.journal.protocol import JOURNAL_FILE
from trainer.publishing.columns import ACTION, COLUMNS, TURN, Feature, arrow_schema
from trainer.publishing.markdown import fenced, front_matter, link_text, table
from trainer.publishing.origin import Origin, read_origin
from trainer.publishing.trajectories import RecordedTrajectory, read_trajectories

Split = Literal["train", "eval"]
SPLITS: tuple[Split, ...] = ("train", "eval")
ROW_GROUP = 250
"""Trajectories in a row group, and maximum in memory in addition to unfinished iterations."""
MEANINGS = {
    "id": "id of the trajectory in the run's journal; with `attempt` unique",
    "attempt": "which start of the run played it",
    "suite": "evaluation suite; null in training",
    "iteration": "rollout–update iteration; an evaluation is of the weights after it",
    "group": "trajectories of one group share the initial state; `member` counts them",
    "seed": "of the initial state",
    "end": "`terminated` by the environment, out of `turns` or `actions`, `truncated`, or `interrupted`",
    "total_reward": "sum of the rewards of its turns",
    "lost_turn": "with `lost_action` the first action after which success was impossible, by the solver",
    "group_mean": "rewards of its group; `group_std` their deviation, `group_kept` whether the update used it",
    "board": "initial board as JSON; `hint` is the solver's advice",
    "turns": "state, response (with thought and answer), actions with boards, calls of tools with results, and reward "
    "terms of each turn",
}


class Size(NamedTuple):
    """Number of rows of a split, and its bytes in Arrow's memory."""

    rows: int
    bytes: int


class MissingParquetError(ValueError):
    """pyarrow is not installed. The message says what to install."""


def export_trajectories(run: Path, out: Path, *, splits: Sequence[Split] = SPLITS, licence: str = "") -> dict[str, int]:
    """Write the finished trajectories of a run as a data set.

    Args:
        run: folder of the run; a running one is exported up to its last complete line.
        out: folder to write; it must be empty or missing.
        splits: train, eval or both; a split without trajectories has no file.
        licence: id of the licence for the card; "" for none.
    Returns:
        The number of trajectories of each split.
    Raises:
        ValueError: `out` is not empty, the folder is not a run's folder, or it has no finished trajectory.
        MissingParquetError: pyarrow is not installed.
    """
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty: choose another folder")
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        raise MissingParquetError("Parquet needs pyarrow: pip install '.[parquet]' in its repository") from None
    origin = read_origin(run)
    counts: dict[str, int] = dict.fromkeys(splits, 0)
    bytes_in_memory: dict[str, int] = dict.fromkeys(splits, 0)
    schema, pa = arrow_schema(COLUMNS, format="echoscope.trajectories", version="1"), import_module("pyarrow")
    with ExitStack() as files:
        writers: dict[str, Any] = {}
        for split, rows in _row_groups(run / JOURNAL_FILE, splits):
            if split not in writers:
                path = out / data_file(split)
                path.parent.mkdir(parents=True, exist_ok=True)
                writers[split] = files.enter_context(parquet.ParquetWriter(path, schema, compression="zstd"))
            page = pa.Table.from_pylist(rows, schema=schema)
            writers[split].write_table(page)
            counts[split] += len(rows)
            bytes_in_memory[split] += page.nbytes
    counts = {split: count for split, count in counts.items() if count}
    if not counts:
        raise ValueError(f"{run} has no finished trajectory of the split {' or '.join(splits)}")
    sizes = {split: Size(count, bytes_in_memory[split]) for split, count in counts.items()}
    download = sum((out / data_file(split)).stat().st_size for split in counts)
    card = front_matter(metadata(origin, sizes, download, licence)) + _body(origin, counts)
    (out / "README.md").write_text(card, encoding="utf-8")
    return counts


def data_file(split: str) -> str:
    """Return the path of a split within the data set."""
    return f"data/{split}.parquet"


def _row_groups(journal: Path, splits: Sequence[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    waiting: dict[str, list[dict[str, Any]]] = {split: [] for split in splits}
    for trajectory in read_trajectories(journal):
        rows = waiting.get(trajectory.group.split)
        if rows is None:
            continue
        rows.append(row(trajectory))
        if len(rows) >= ROW_GROUP:
            yield trajectory.group.split, rows
            waiting[trajectory.group.split] = []
    yield from ((split, rows) for split, rows in waiting.items() if rows)


def row(trajectory: RecordedTrajectory) -> dict[str, Any]:
    """Convert a trajectory to a row with the columns of COLUMNS."""
    group, end, score, lost = trajectory.group, trajectory.finished, trajectory.score, trajectory.finished.lost_at
    return {
        "id": trajectory.key,
        "attempt": trajectory.attempt,
        "environment": group.environment,
        "suite": group.suite,
        "iteration": group.iteration,
        "group": group.group,
        "member": trajectory.member,
        "seed": group.seed,
        "success": end.success,
        "end": end.end,
        "total_reward": end.total_reward,
        "lost_turn": lost and lost.turn,
        "lost_action": lost and lost.action,
        "lost_reason": lost and lost.reason,
        "turn_count": end.turns,
        "action_count": end.actions,
        "token_count": end.tokens,
        "error": end.error,
        "group_mean": score and score.mean,
        "group_std": score and score.std,
        "group_kept": score and score.kept,
        "prompt": group.prompt,
        "board": _json(group.board),
        "hint": _json(group.hint),
        "turns": [
            turn.model_dump(include=set(TURN) - {"terms", "actions"})
            | {
                "terms": [{"name": name, "value": value} for name, value in turn.terms.items()],
                "actions": [_action(action) | ({} if turn.terms else {"reward": None}) for action in turn.actions],
            }
            | ({} if turn.terms else {"reward": None})  # not recorded
            for turn in trajectory.turns
        ],
    }


def _action(action: ActionRecord) -> dict[str, Any]:
    call = action.call
    return action.model_dump(include=set(ACTION) - {"board", "hint", "call"}) | {
        "board": _json(action.board),
        "hint": _json(action.hint),
        "call": call and call.model_dump() | {"arguments": _dumped(call.arguments)},
    }


def _json(model: BaseModel | None) -> str | None:
    if model is None:
        return None
    return _dumped(model.model_dump(mode="json", exclude_none=True))


def _dumped(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def features(columns: dict[str, Feature]) -> list[dict[str, Any]]:
    """Return the columns in the format of `dataset_info` in a dataset card."""
    listed = []
    for name, feature in columns.items():
        if isinstance(feature, dict):
            listed.append({"name": name, "struct": features(feature)})
        elif isinstance(feature, list):
            inner = feature[0]
            listed.append({"name": name, "list": features(inner) if isinstance(inner, dict) else inner})
        else:
            listed.append({"name": name, "dtype": feature})
    return listed


def metadata(origin: Origin, sizes: dict[str, Size], download: int, licence: str) -> dict[str, Any]:
    """Return the card's metadata (https://huggingface.co/docs/hub/datasets-cards)."""
    data: dict[str, Any] = {"license": licence} if licence else {}
    return data | {
        "pretty_name": f"Trajectories of {origin.title}",
        "task_categories": ["reinforcement-learning", "text-generation"],
        "tags": ["echoscope", "agent", "trajectories", *(f"env:{name}" for name in sorted(origin.environments))],
        "size_categories": [size_category(sum(size.rows for size in sizes.values()))],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": data_file(split)} for split in sizes],
            }
        ],
        "dataset_info": {
            "features": features(COLUMNS),
            "splits": [
                {"name": split, "num_bytes": size.bytes, "num_examples": size.rows} for split, size in sizes.items()
            ],
            "download_size": download,
            "dataset_size": sum(size.bytes for size in sizes.values()),
        },
    }


def size_category(count: int) -> str:
    """Return the Hub's category for a number of rows."""
    steps = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
    return next((name for limit, name in steps if count < limit), "1M<n<10M" if count < 10_000_000 else "10M<n<100M")


def _body(origin: Origin, counts: dict[str, int]) -> str:
    rows = [f"| `{name}` | {_type_name(feature)} | {MEANINGS.get(name, '')} |" for name, feature in COLUMNS.items()]
    example = (
        "from datasets import load_dataset\n\n"
        f'trajectories = load_dataset("DATASET", split="{next(iter(counts))}")\n'
        "print(trajectories[0]['turns'][0]['response'])"
    )
    began = f", which began as {link_text(origin.policy)}," if origin.policy else ""
    environments = ", ".join(f"**{link_text(name)}**" for name in origin.environments)
    iterations = f"{origin.iterations} iteration{'' if origin.iterations == 1 else 's'}"
    parts = [
        f"# Trajectories of {link_text(origin.title)}",
        f"Dialogues of a language-model agent{began} in {environments}, recorded by Echoscope over {iterations}.",
        table(["split", "trajectories", "file"], [[s, f"{count:,}", data_file(s)] for s, count in counts.items()]),
        "Only finished trajectories are included, and none that the run played again after it was resumed or rewound.",
        "## Columns",
        "\n".join(["| column | type | meaning |", "| --- | --- | --- |", *rows]),
        "## Use",
        fenced(example, "python"),
    ]
    return "\n\n".join(parts) + "\n"


def _type_name(feature: Feature) -> str:
    if isinstance(feature, list):
        return f"list of {_type_name(feature[0])}"
    return "struct" if isinstance(feature, dict) else feature
