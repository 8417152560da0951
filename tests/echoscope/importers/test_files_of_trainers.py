"""Fields, formats, spellings and encodings of files that other trainers write: read as they are meant, or named."""

from __future__ import annotations

import gzip
import json
import math
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echoscope.cli import main
from echoscope.importers.import_notes import ImportNotes
from echoscope.importers.importing import import_files
from echoscope.importers.records import ImportFailed
from echoscope.recording import journal_writer
from echoscope.recording.splits import split_named
from echoscope.recording.tool_calls import RESULT_ROLES
from tests.echoscope.recording.test_failing_storage import is_full
from trainer.journal.reader import read

QUESTION, ANSWER = "How many legs has a spider?", "Eight."
CHAT = {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]}
RECORDS: dict[str, dict[str, Any]] = {
    "chat": CHAT,
    "verifiers": {"prompt": QUESTION, "completion": ANSWER},
    "verl": {"input": QUESTION, "output": ANSWER},
    "art": {"messages_and_choices": CHAT["messages"]},
}


def lines(*records: Any) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def imported(folder: Path, data: str | bytes, name: str = "rollouts.jsonl", **options: Any) -> dict[str, list[Any]]:
    file = folder / "in" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data.encode(errors="surrogatepass") if isinstance(data, str) else data)
    summary = import_files([file], folder / "run", **options)
    events: dict[str, list[Any]] = {"notes": summary.notes}
    for event in read(folder / "run" / "journal.jsonl"):
        events.setdefault(event.type, []).append(event)
    return events


SUCCESS = ["success", "is_success", "correct", "is_correct", "solved", "passed", "acc", "accuracy"]
TRUTHS = [(True, False), (1, 0), (1.0, 0.0), ("true", "false"), ("True", "False")]


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("field", SUCCESS)
def test_what_a_file_states_is_the_success_whatever_the_reward(kind: str, field: str, tmp_path: Path) -> None:
    for number, (right, wrong) in enumerate(TRUTHS):
        records = [RECORDS[kind] | {field: value, "score": 0.9} for value in (right, wrong)]
        ends = imported(tmp_path / f"{number}", lines(*records))["trajectory_finished"]
        assert [end.success for end in ends] == [True, False]


@pytest.mark.parametrize(
    ("rewards", "successes", "asks"),
    [
        ([0.9, 0.1], [None, None], True),
        ([-1.0, -0.5], [None, None], True),
        ([0.0, 0.0], [False, False], False),
        ([1.0, 0.9], [True, False], False),
        ([2.0, 0.1], [True, False], False),
    ],
)
def test_shaped_rewards_alone_do_not_make_failures(
    rewards: list[float], successes: list[bool | None], asks: bool, tmp_path: Path
) -> None:
    data = lines(*(RECORDS["verl"] | {"score": reward} for reward in rewards))
    events = imported(tmp_path, data)
    assert [end.success for end in events["trajectory_finished"]] == successes
    assert ["Pass --success-at" in note for note in events["notes"]] == [True] * asks
    given = imported(tmp_path / "given", data, success_at=0.5)
    assert [end.success for end in given["trajectory_finished"]] == [reward >= 0.5 for reward in rewards]


EVALUATIONS = ["eval", "evaluation", "evals", "val", "valid", "validation", "test", "testing", "dev", "heldout"]


def test_a_split_has_the_same_names_in_fields_and_folders_and_in_any_case(tmp_path: Path) -> None:
    for number, name in enumerate(spelling for word in EVALUATIONS for spelling in (word, word.upper(), word.title())):
        (group,) = imported(tmp_path / f"{number}", lines(CHAT | {"split": name}))["group_started"]
        (in_folder,) = imported(tmp_path / f"{number}-folder", lines(CHAT), f"{name}/1.jsonl")["group_started"]
        assert (group.split, in_folder.split) == ("eval", "eval"), name
    for name in ("train", "Training", "train_0"):
        (group,) = imported(tmp_path / name, lines(CHAT | {"split": name}), "val/1.jsonl")["group_started"]
        assert group.split == "train"
    assert (split_named("nonsense"), split_named("test_what_i_did")) == (None, None)


@pytest.mark.parametrize("name", ["test_normal", "Test-Challenge", "dev_set", "hold_out", "holdout", "ood_test"])
def test_parts_of_test_sets_are_evaluations_in_a_field(name: str, tmp_path: Path) -> None:
    (group,) = imported(tmp_path, lines(CHAT | {"split": name}))["group_started"]
    assert group.split == "eval"


def test_a_split_of_another_name_is_in_the_summary(tmp_path: Path) -> None:
    events = imported(tmp_path, lines(*[CHAT | {"split": "challenge"}] * 2))
    (note,) = (note for note in events["notes"] if "split" in note)
    assert "the split 'challenge' is neither a training nor an evaluation by its name" in note
    assert "count as train" in note
    assert "--split eval" in note


ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "rollouts.jsonl": str.encode,
    "with a byte order mark.jsonl": lambda text: text.encode("utf-8-sig"),
    "of PowerShell.jsonl": lambda text: text.encode("utf-16"),
    "CAPITALS.JSONL": str.encode,
    "lines.ndjson": lambda text: text.replace("\n", "\r\n").encode(),
    "packed.jsonl.gz": lambda text: gzip.compress(text.encode()),
    "PACKED.JSONL.GZ": lambda text: gzip.compress(text.encode("utf-8-sig")),
    "appended.jsonl": lambda text: b"\xef\xbb\xbf\n" + text.encode("utf-8-sig"),
    "one.json": lambda text: text.encode("utf-8-sig"),
    "one.Json.gz": lambda text: gzip.compress(text.encode()),
    "12.jsonl.gz": lambda text: gzip.compress(text.encode()),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_files_in_any_encoding_and_spelling_are_read(name: str, tmp_path: Path) -> None:
    record = json.loads(json.dumps(CHAT).replace("Eight", "Åtta ж 😀"))
    events = imported(tmp_path, ENCODINGS[name](lines(record)), name)
    assert [(turn.state, turn.response) for turn in events["turn"]] == [(QUESTION, "Åtta ж 😀.")]
    assert events["group_started"][0].iteration == (12 if name.startswith("12") else 0)
    again = tmp_path / "again"
    import_files([tmp_path / "in"], again)
    assert (again / "journal.jsonl").exists(), "also as a file of a folder"


def test_completions_of_trl_are_training_with_a_term_for_each_reward_function(tmp_path: Path) -> None:
    record = {"step": 3, "prompt": CHAT["messages"][:1], "completion": CHAT["messages"][1:], "advantage": 0.7}
    rewards = [{"correct": 1.0, "short": -0.1}, {"correct": 0.0, "short": None}, {"correct": math.nan, "short": -0.1}]
    events = imported(tmp_path, lines(*(record | reward for reward in rewards)))
    (group,) = events["group_started"]
    assert (group.iteration, group.split, len(group.members)) == (3, "train", 3)
    assert [turn.terms for turn in events["turn"]] == [
        {"correct": 1.0, "short": -0.1},
        {"correct": 0.0},
        {"short": -0.1},
    ]
    assert [end.total_reward for end in events["trajectory_finished"]] == [0.9, 0.0, -0.1]
    assert events["trajectory_finished"][0].extra["record"]["advantage"] == 0.7
    assert "evaluation" not in events


def test_rollouts_of_verifiers_with_a_step_stay_an_evaluation(tmp_path: Path) -> None:
    record = RECORDS["verifiers"] | {"reward": 1.0, "step": 1, "advantage": 0.1}
    assert imported(tmp_path, lines(record))["group_started"][0].split == "eval"


@pytest.mark.parametrize(
    ("call_role", "result_role"), [("function_call", "observation"), ("tool_call", "tool_response")]
)
@pytest.mark.parametrize("names", [("from", "value"), ("role", "content")])
def test_calls_that_are_messages_are_the_policy_s(
    call_role: str, result_role: str, names: tuple[str, str], tmp_path: Path
) -> None:
    call = json.dumps({"name": "price", "arguments": {"item": "milk"}})
    said = [("user", "What is it?"), (call_role, call), (result_role, "1.20"), ("assistant", "1.20 euros.")]
    messages = [dict(zip(names, pair, strict=True)) for pair in said]
    first, second = imported(tmp_path, lines({"conversations": messages}))["turn"]
    (action,) = first.actions
    assert (first.state, action.call.tool, action.call.arguments) == ("What is it?", "price", {"item": "milk"})
    assert (action.call.result, second.state, second.response) == ("1.20", "1.20", "1.20 euros.")


def test_a_call_that_is_no_json_is_a_response(tmp_path: Path) -> None:
    messages = [{"from": "human", "value": "What?"}, {"from": "function_call", "value": "price(milk)"}]
    (turn,) = imported(tmp_path, lines({"conversations": messages}))["turn"]
    assert (turn.response, turn.actions) == ("price(milk)", [])


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "value": QUESTION},
        {"type": "text", "content": QUESTION},
        {"type": "text", "text": {"value": QUESTION, "annotations": []}},
        {"type": "input_text", "text": QUESTION},
        {"type": "output_text", "text": QUESTION, "annotations": []},
        {"text": QUESTION},
        QUESTION,
    ],
)
def test_texts_in_blocks_of_any_shape_are_texts(block: Any, tmp_path: Path) -> None:
    record = {"messages": [{"role": "user", "content": [block]}, CHAT["messages"][1]]}
    (turn,) = imported(tmp_path, lines(record))["turn"]
    assert turn.state == QUESTION


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "text", "text": ""}, ""),
        ({"type": "text"}, "[text]"),
        ({"type": "text", "body": QUESTION}, f'[text] {{"body": "{QUESTION}"}}'),
        (
            {"type": "input_text", "text": {"markdown": QUESTION}},
            f'[input_text] {{"text": {{"markdown": "{QUESTION}"}}}}',
        ),
    ],
)
def test_a_text_block_without_a_known_field_shows_all_its_fields(block: Any, shown: str, tmp_path: Path) -> None:
    record = {"messages": [{"role": "user", "content": [block]}, CHAT["messages"][1]]}
    (turn,) = imported(tmp_path, lines(record))["turn"]
    assert turn.state == shown


def test_fields_nested_deeply_are_cut(tmp_path: Path) -> None:
    deep = b'{"a": ' * 700 + b"1" + b"}" * 700
    data = lines(CHAT).encode().rstrip(b"}\n") + b', "judge": ' + deep + b', "other": "kept"}\n'
    (end,) = imported(tmp_path, data)["trajectory_finished"]
    assert end.extra["record"]["other"] == "kept"
    assert "[more than 64 levels]" in json.dumps(end.extra["record"]["judge"])


WORDS = st.text(string.ascii_lowercase, min_size=12, max_size=16)
VALUES = st.recursive(
    WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "title", "data", "x"]), inner),
    max_leaves=4,
)
KINDS = ["text", "input_text", "video", "tool_use", "tool_result", "thinking", "reasoning", "odd"]
PARTS = ["text", "value", "content", "thinking", "title", "url", "name", "input", "id", "data"]
BLOCKS = WORDS | st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)}, optional=dict.fromkeys(PARTS, VALUES) | {"tool_use_id": st.just("t1")}
)
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant", "tool", "observation", "function_call", "critic"]),
        "content": WORDS | st.lists(BLOCKS, max_size=3),
    },
    optional={"reasoning_content": WORDS, "name": WORDS, "note": VALUES, "tool_call_id": WORDS},
)


def words_in(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value} if len(value) >= 12 else set()
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {word for part in parts for word in words_in(part)}


LINKS = {"name", "tool_call_id"}
"""Fields of results that say which call they belong to."""


def answers(message: dict[str, Any]) -> bool:
    return message["role"] in RESULT_ROLES


@given(messages=st.lists(MESSAGES, min_size=1, max_size=4), other=VALUES)
def test_an_import_keeps_every_word(
    messages: list[dict[str, Any]], other: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("words")
    imported(folder, lines({"messages": messages, "judge": other}))
    kept = (folder / "run" / "journal.jsonl").read_text()
    sent = [
        {
            name: value
            for name, value in message.items()
            if name != "role" and (name not in LINKS or not answers(message))
        }
        for message in messages
    ]
    assert {word for word in words_in([sent, other]) if word not in kept} == set()


BROKEN: dict[str, tuple[bytes, str]] = {
    "deep": (b"[" * 100_000, "line 2: its lists or objects are nested too deep"),
    "cut off": (b'{"messages"', "line 2: it is not JSON"),
    "a list": (b"[1]", "line 2: it is a list"),
    "not a number": (b'{"messages": [], "reward": "good"}', "line 2: the field reward is 'good', not a number"),
    "NaN as iteration": (b'{"messages": [], "step": NaN}', "line 2: the field step is nan, not the number"),
    "endless iteration": (b'{"messages": [], "step": 1e999}', "line 2: the field step is inf, not the number"),
    "time stamp": (b'{"messages": [], "step": 1732700000}', "line 2: the field step is 1.7327e+09, not the number"),
    "tokens": (b'{"messages": [], "tokens": NaN}', "line 2: it cannot be read"),
    "Latin-1": ("Jos\xe9\n".encode("latin-1"), "is neither UTF-8 nor UTF-16"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_failed_import_is_one_line_and_leaves_nothing(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, message = BROKEN[what]
    file = tmp_path / "rollouts.jsonl"
    file.write_bytes(lines(CHAT | {"iteration": 1, "reward": 1.0}).encode() + data)
    assert main(["import", str(file), "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {file}")
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_an_import_onto_a_full_disk_fails_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writer.os, "write", is_full)
    with pytest.raises(ImportFailed, match="No space left on device"):
        imported(tmp_path, lines(CHAT))
    assert not (tmp_path / "run").exists()


def test_a_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    for data in (gzip.compress(lines(CHAT).encode() * 100)[:-20], b"no gzip at all"):
        with pytest.raises(ImportFailed, match=r"rollouts\.jsonl\.gz (is not a complete gzip file|cannot be read)"):
            imported(tmp_path, data, "rollouts.jsonl.gz")
    assert not (tmp_path / "run").exists()


def test_values_that_are_not_known_are_named_with_their_first_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rollouts.jsonl"
    file.write_text(lines(CHAT | {"reward": 1.0}, CHAT | {"reward": math.nan}, CHAT | {"reward": math.inf}))
    assert main(["import", str(file), "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert said == f"{file}, line 2: reward of turn() is nan and is recorded as not known. (2 times in all)\n"
    ends = [event for event in read(tmp_path / "run" / "journal.jsonl") if event.type == "trajectory_finished"]
    assert [(end.success, end.total_reward) for end in ends] == [(True, 1.0), (None, None), (None, None)]


def test_notes_have_an_end() -> None:
    notes = ImportNotes()
    for number in range(5000):
        notes.once(f"{number}", "odd")
    assert len(notes.lines()) == 1000
