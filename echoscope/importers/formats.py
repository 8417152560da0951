"""Formats of JSON Lines and Parquet records: chat transcripts, verifiers, verl, TRL and ART."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echoscope.importers.attempts import Attempt, read_iteration, read_number, read_reward, stated_success
from echoscope.importers.records import Record, load_object, plain_name
from echoscope.importers.verifiers_traces import VerifiersTrace, is_trace, read_traces
from echoscope.recording.content_blocks import ConversationError
from echoscope.recording.conversation import ChatTurn, Conversation, read_conversation, split_thought
from echoscope.recording.splits import Split, split_named, split_stated

MESSAGE_FIELDS = ("messages", "messages_and_choices", "conversations", "conversation")
GROUP_FIELDS = ("group", "group_index", "group_id", "prompt_id", "example_id", "uid")
ENVIRONMENT_FIELDS = ("environment", "env_id", "task", "data_source")
_TRL_COLUMNS = {"step", "prompt", "completion", "advantage"}
_OF_VERIFIERS = {"reward", "example_id", "task", "info"}
"""Fields of rollouts that TRL's files do not have."""


@dataclass(frozen=True)
class ImportOptions:
    """Statements of the command about the files; empty values leave it to the files.

    Attributes:
        environment: name of the task.
        split: split of all trajectories.
    """

    environment: str = ""
    split: Split | None = None


def chat_attempts(record: Record, options: ImportOptions) -> Iterator[Attempt]:
    """Read a chat transcript: an object with `messages` and other fields."""
    name = next((name for name in MESSAGE_FIELDS if name in record.fields), "")
    if not name:
        raise record.fail(f"it has no messages: its fields are {', '.join(record.fields)}", advice_on_formats())
    messages = record.fields[name]
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except ValueError:
            raise record.fail(f"the field {name} is a text, not a list of messages") from None
    yield _attempt(record, options, _conversation(record, messages), read=(name,))


def verifiers_attempts(record: Record, options: ImportOptions) -> Iterator[Attempt]:
    """Read rollouts of verifiers or prime-rl: an episode or a trace, or formerly `prompt` and `completion`."""
    if is_trace(record.fields):
        try:
            traces = list(read_traces(record.fields))
        except ConversationError as problem:
            raise record.fail(str(problem), "Remove the line, or run this rollout again.") from None
        for number, trace in enumerate(traces, 1):
            label = f"{record.location}, trace {number}" if len(traces) > 1 else record.location
            yield _of_trace(Record(record.file, label, record.fields), options, trace)
        return
    prompt, completion = record.fields.get("prompt"), record.fields.get("completion")
    if not prompt and not completion:
        raise record.fail(
            f"it has no messages: its fields are {', '.join(record.fields)}",
            "Rollouts of verifiers have traces, or prompt and completion.",
        )
    messages = _messages(record, "prompt", prompt, "user") + _messages(record, "completion", completion, "assistant")
    metadata = load_object(record.file.with_name("metadata.json"))
    named = options.environment or str(metadata.get("env_id") or "")
    trace_options = ImportOptions(named, options.split or (None if _iteration_of_file(record.file) else "eval"))
    error = record.fields.get("error")
    if isinstance(error, Mapping):
        error = error.get("error_chain_str") or error.get("error")
    usage = record.fields.get("token_usage")
    tokens = read_number(record, "token_usage", usage.get("output_tokens")) if isinstance(usage, Mapping) else None
    yield _attempt(
        record,
        trace_options,
        _conversation(record, messages),
        read=("prompt", "completion"),
        error=str(error or ""),
        truncated=bool(record.fields.get("is_truncated")),
        tokens=int(tokens or 0),
    )


def verl_attempts(record: Record, options: ImportOptions) -> Iterator[Attempt]:
    """Read a line of verl's `trainer.rollout_data_dir` or `validation_data_dir`: `input`, `output`, `score`, `step`."""
    texts = {name: record.fields.get(name) for name in ("input", "output")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise record.fail(f"the field {name} is no text", "verl writes the decoded prompt and response there.")
    thought, answer = split_thought(str(texts["output"]))
    turn = ChatTurn(str(texts["input"]), str(texts["output"]), thought, answer.strip())
    yield _attempt(record, options, Conversation("", [turn]), read=("input", "output"))


def trl_attempts(record: Record, options: ImportOptions) -> Iterator[Attempt]:
    """Read a line of TRL's files for `log_completions`: a column of rewards for each reward function."""
    messages = _messages(record, "prompt", record.fields.get("prompt"), "user")
    messages += _messages(record, "completion", record.fields.get("completion"), "assistant")
    terms = {
        name: float(value)
        for name, value in record.fields.items()
        if name not in _TRL_COLUMNS and type(value) in (int, float) and math.isfinite(value)
    }
    split = options.split or detect_split(record.file)
    yield _attempt(
        record,
        ImportOptions(options.environment, split),
        _conversation(record, messages),
        read=("prompt", "completion", "step"),
        terms=terms,
    )


def art_attempts(record: Record, options: ImportOptions) -> Iterator[Attempt]:
    """Read a trajectory group of ART: `trajectories`, each with `messages_and_choices`, `reward`, `metrics`."""
    trajectories = record.fields.get("trajectories")
    if not isinstance(trajectories, list):
        yield from chat_attempts(record, options)
        return
    for number, fields in enumerate(trajectories, 1):
        part = Record(
            record.file, f"{record.location}, trajectory {number}", fields if isinstance(fields, dict) else {}
        )
        if not isinstance(fields, dict) or "messages_and_choices" not in fields:
            raise part.fail("it has no messages_and_choices", "ART writes the messages of a trajectory there.")
        choices = fields["messages_and_choices"]
        messages = [
            choice["message"] if isinstance(choice, Mapping) and "message" in choice else choice
            for choice in (choices if isinstance(choices, list) else [])
        ]
        conversation = _conversation(part, messages if isinstance(choices, list) else choices)
        yield _attempt(part, options, conversation, read=("messages_and_choices",), group=record.location)


FORMATS = {
    "chat": chat_attempts,
    "verifiers": verifiers_attempts,
    "verl": verl_attempts,
    "trl": trl_attempts,
    "art": art_attempts,
}


def detect_format(record: Record) -> str:
    """Detect the format of a file from the fields of its first record. Raises ImportFailed."""
    fields = record.fields
    if is_trace(fields):
        return "verifiers"
    if "trajectories" in fields or "messages_and_choices" in fields or {"group_index", "messages"} <= fields.keys():
        return "art"
    if any(name in fields for name in MESSAGE_FIELDS):
        return "chat"
    if {"prompt", "completion"} <= fields.keys():
        return "trl" if {"step", "advantage"} <= fields.keys() and not _OF_VERIFIERS & fields.keys() else "verifiers"
    if {"input", "output"} <= fields.keys():
        return "verl"
    raise record.fail(f"its format is not known: its fields are {', '.join(fields) or 'none'}", advice_on_formats())


def advice_on_formats() -> str:
    """Describe the fields that records must have, for error messages."""
    return (
        "Chat transcripts have messages, rollouts of verifiers traces (or prompt and completion), of verl input and "
        "output, completions of TRL step and advantage, groups of ART trajectories. Rename the fields, or record the "
        "run with echoscope.init."
    )


def detect_split(file: Path) -> Split:
    """Detect the split from the names of a file's folder and its parent: “val”, “eval” and the like are evaluations."""
    return "eval" if "eval" in map(split_named, file.parts[-3:-1]) else "train"


def _attempt(
    record: Record,
    options: ImportOptions,
    conversation: Conversation,
    *,
    read: tuple[str, ...],
    group: str = "",
    error: str = "",
    truncated: bool = False,
    tokens: int = 0,
    terms: Mapping[str, float] | None = None,
) -> Attempt:
    fields = record.fields
    stated = str(fields.get("split") or "")
    known = options.split or split_stated(stated)
    split = known or detect_split(record.file)
    named = options.environment or _name_in(fields)
    key = next((f"{fields[name]}" for name in GROUP_FIELDS if fields.get(name) is not None), "")
    iteration = read_iteration(record, "iteration", "step", "global_step", default=_iteration_of_file(record.file))
    parts = fields.get("rewards") if terms is None and isinstance(fields.get("rewards"), dict) else {}
    if terms is None:
        terms = {str(name): read_number(record, f"rewards.{name}", part) or 0.0 for name, part in (parts or {}).items()}
        reward = read_reward(record)
    else:
        reward = sum(terms.values()) if terms else None
    return Attempt(
        record=record,
        conversation=conversation,
        group=group or key or conversation.opening,
        iteration=iteration,
        split=split,
        suite=named if split == "eval" else "",
        environment=named,
        reward=reward,
        success=stated_success(record.fields),
        terms=terms,
        tokens=tokens or int(read_number(record, "tokens", fields.get("tokens")) or 0),
        truncated=truncated or fields.get("truncated") is True,
        error=error,
        unknown_split="" if known else stated,
        extra={name: value for name, value in fields.items() if name not in read and value is not None},
    )


def _of_trace(record: Record, options: ImportOptions, trace: VerifiersTrace) -> Attempt:
    conversation = _conversation(record, trace.messages)
    numbered = _iteration_of_file(record.file)
    split = options.split or trace.split or (detect_split(record.file) if numbered else "eval")
    named = options.environment or trace.environment
    return Attempt(
        record=record,
        conversation=conversation,
        group=trace.group or conversation.opening,
        iteration=numbered if trace.step is None else trace.step,
        split=split,
        suite=" · ".join(part for part in (named, trace.agent) if part) if split == "eval" else "",
        environment=named,
        reward=trace.reward,
        terms=trace.terms,
        tokens=trace.tokens,
        truncated=trace.truncated,
        error=trace.error,
        extra=trace.extra,
    )


def _name_in(fields: Mapping[str, Any]) -> str:
    """Return the name of the environment; empty if the fields contain none."""
    return next((str(fields[name]) for name in ENVIRONMENT_FIELDS if isinstance(fields.get(name), str)), "")


def _conversation(record: Record, messages: Any) -> Conversation:
    try:
        return read_conversation(messages)
    except ConversationError as error:
        raise record.fail(str(error), "Messages are objects with role and content, as chat APIs have them.") from None


def _messages(record: Record, name: str, value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if value is None:
        return []
    if not isinstance(value, list):
        raise record.fail(f"the field {name} is neither a text nor a list of messages")
    return list(value)


def _iteration_of_file(file: Path) -> int:
    """Return the number in a file's or folder's name that is a step: 12.jsonl, 0012.parquet, step_12/rollouts.jsonl."""
    for name in (Path(plain_name(file)).stem, file.parent.name):
        if match := re.fullmatch(r"(?:(?:global_)?step[_-]?|iteration[_-]?)?(\d{1,9})", name):
            return int(match[1])
    return 0
