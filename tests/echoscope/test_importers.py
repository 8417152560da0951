"""Files of other tools become runs whose journal a site reads; broken ones are named with file and line."""

from __future__ import annotations

import base64
import json
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from echoscope.cli import main
from echoscope.importers.formats import ImportOptions
from echoscope.importers.importing import import_files
from echoscope.importers.records import ImportFailed, find_files
from tests.webapp.observed_images import image_file, sha256_of
from trainer.journal.events import AnyEvent
from trainer.journal.reader import read

QUESTION = {"role": "user", "content": "2 + 2?"}
SYSTEM = {"role": "system", "content": "You add."}


def reply(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def write_lines(file: Path, *records: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def imported(tmp_path: Path, *paths: Path, **options: Any) -> dict[str, list[Any]]:
    import_files(paths, tmp_path / "run", **options)
    events: dict[str, list[AnyEvent]] = {}
    for event in read(tmp_path / "run" / "journal.jsonl"):
        events.setdefault(event.type, []).append(event)
    return events


def test_chat_transcripts_become_turns_with_thoughts_and_tool_calls(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}
    answer = reply("<think>Four, then.</think>It is 4.", model="m-7b")
    messages = [SYSTEM, QUESTION, reply("", tool_calls=[call]), {"role": "tool", "content": "4"}, answer]
    file = write_lines(tmp_path / "chats.jsonl", {"messages": messages, "reward": 1, "step": 3, "judge": {"score": 9}})
    events = imported(tmp_path, file)
    (group,), (first, second), (end,) = events["group_started"], events["turn"], events["trajectory_finished"]
    assert (group.prompt, group.iteration, group.split) == ("You add.", 3, "train")
    assert (first.state, first.answer) == ("2 + 2?", 'add({"a": 2, "b": 2})')
    assert (first.actions[0].name, first.extra["tool_calls"][0]["name"]) == ("add", "add")
    assert call_of(first) == ("add", {"a": 2, "b": 2}, "4", False)
    assert (second.state, second.thought, second.answer) == ("4", "Four, then.", "It is 4.")
    assert second.extra == {"message": {"model": "m-7b"}}
    assert (first.reward, second.reward, end.total_reward, end.success) == (0, 1, 1, True)
    assert end.extra["record"]["judge"] == {"score": 9}
    (metrics,) = events["metrics"]
    assert (metrics.iteration, metrics.values) == (3, {"reward/mean": 1, "success/rate": 1})


def call_of(turn: Any, number: int = 0) -> tuple[str, dict[str, Any], str, bool]:
    call = turn.actions[number].call
    return call.tool, call.arguments, call.result, call.failed


def test_results_belong_to_the_calls_with_their_ids(tmp_path: Path) -> None:
    calls = [{"id": name, "function": {"name": name, "arguments": f'{{"q": "{name}"}}'}} for name in ("a", "b", "c")]
    results = [{"role": "tool", "tool_call_id": name, "content": f"found {name}"} for name in ("b", "a", "other")]
    messages = [QUESTION, reply("I look.", tool_calls=calls), *results, reply("Done.")]
    first, second = imported(tmp_path, write_lines(tmp_path / "chats.jsonl", {"messages": messages}))["turn"]
    assert [call_of(first, number) for number in range(3)] == [
        ("a", {"q": "a"}, "found a", False),
        ("b", {"q": "b"}, "found b", False),
        ("c", {"q": "c"}, "", False),
    ]
    assert first.response.startswith("I look.\n")
    assert second.state == "found b\n\nfound a\n\nfound other"


def test_results_without_ids_follow_the_order_of_calls_and_errors_are_failures(tmp_path: Path) -> None:
    calls = [{"function": {"name": "a", "arguments": "{broken"}}, {"function": "b", "arguments": {"n": float("inf")}}]
    error = {"role": "tool", "content": "", "error": {"type": "timeout", "message": "took too long"}}
    messages = [QUESTION, reply("", tool_calls=calls), {"role": "tool", "content": "one"}, error]
    legacy = [QUESTION, reply("", function_call={"name": "now", "arguments": ""})]
    legacy += [{"role": "function", "name": name, "content": name} for name in ("other", "now")]
    file = write_lines(tmp_path / "chats.jsonl", {"messages": messages}, {"messages": legacy})
    turn, former = imported(tmp_path, file)["turn"]
    assert call_of(turn) == ("a", {"arguments": "{broken"}, "one", False)
    assert call_of(turn, 1) == ("b", {"n": "inf"}, "took too long", True)
    assert call_of(former) == ("now", {}, "now", False)


def test_attempts_at_the_same_task_are_a_group_and_their_spread_is_measured(tmp_path: Path) -> None:
    lines = [{"messages": [QUESTION, reply("4")], "reward": 1}, {"messages": [QUESTION, reply("5")], "reward": 0}]
    other = {"messages": [{"role": "user", "content": "3 + 3?"}, reply("6")], "reward": 1}
    events = imported(tmp_path, write_lines(tmp_path / "chats.jsonl", lines[0], other, lines[1]))
    assert sorted(len(group.members) for group in events["group_started"]) == [1, 2]
    assert events["metrics"][0].values["reward/in_group_std"] == pytest.approx(0.25)


def test_the_same_task_is_recognised_in_other_iterations(tmp_path: Path) -> None:
    for step, questions in ((1, "ab"), (2, "bc")):
        rows = [{"input": question, "output": "x", "score": 1.0, "step": step} for question in questions]
        write_lines(tmp_path / f"{step}.jsonl", *rows)
    seeds = [group.seed for group in imported(tmp_path, tmp_path)["group_started"]]
    assert seeds[1] == seeds[2]
    assert len(set(seeds)) == 3


def test_nothing_is_made_up_where_files_have_no_rewards(tmp_path: Path) -> None:
    events = imported(tmp_path, write_lines(tmp_path / "chats.jsonl", {"messages": [QUESTION, reply("4")]}))
    assert "metrics" not in events
    assert events["run_started"][0].config["recorded"] == {"imported_from": [str(tmp_path / "chats.jsonl")]}
    (end,) = events["trajectory_finished"]
    assert (end.success, end.total_reward) == (None, None)
    assert events["turn"][0].terms == {}


def test_attempts_of_unknown_success_are_left_out_of_rates_and_evaluations(tmp_path: Path) -> None:
    known = [{"messages": [QUESTION, reply("4")], "success": value} for value in (True, False)]
    unknown = {"messages": [SYSTEM, QUESTION, reply("5")]}
    train = imported(tmp_path / "train", write_lines(tmp_path / "train" / "chats.jsonl", *known, unknown))
    (evaluation,) = imported(
        tmp_path / "eval",
        write_lines(tmp_path / "eval" / "chats.jsonl", *known, unknown),
        options=ImportOptions(split="eval"),
    )["evaluation"]
    assert train["metrics"][0].values == {"success/rate": 0.5}
    assert (evaluation.success, evaluation.prompts, evaluation.mean_reward) == (0.5, 1, None)
    without = write_lines(tmp_path / "none" / "chats.jsonl", unknown)
    assert "evaluation" not in imported(tmp_path / "none", without, options=ImportOptions(split="eval"))


def test_verifiers_results_are_an_evaluation_with_their_metadata(tmp_path: Path) -> None:
    rollouts = [
        {
            "example_id": 0,
            "prompt": [SYSTEM, QUESTION],
            "completion": [reply(text)],
            "reward": reward,
            "metrics": {"exact": reward},
        }
        for text, reward in (("4", 1.0), ("5", 0.0))
    ]
    failed = {
        "example_id": 1,
        "prompt": [QUESTION],
        "completion": [],
        "reward": 0.0,
        "error": {"error_chain_str": "Timeout"},
    }
    file = write_lines(tmp_path / "outputs" / "results.jsonl", *rollouts, failed)
    file.with_name("metadata.json").write_text(json.dumps({"env_id": "adder", "model": "m-7b"}))
    events = imported(tmp_path, file.parent)
    (evaluation,) = events["evaluation"]
    assert (evaluation.suite, evaluation.prompts, evaluation.iteration) == ("adder", 2, 0)
    assert (evaluation.success, evaluation.success_low < 1 / 3 < evaluation.success_high) == (
        pytest.approx(1 / 3),
        True,
    )
    assert events["run_started"][0].config["recorded"]["model"] == "m-7b"
    broken = events["trajectory_finished"][-1]
    assert (broken.error, broken.end, broken.turns) == ("Timeout", "truncated", 0)


def test_verl_rollouts_are_read_step_by_step_in_order_of_their_numbers(tmp_path: Path) -> None:
    for step in (10, 2):
        rows = [{"input": "2 + 2?", "output": f"<think>Hm.</think>{n}", "gts": "4", "score": n == 4} for n in (4, 5)]
        write_lines(tmp_path / "rollouts" / f"{step}.jsonl", *rows)
    write_lines(tmp_path / "rollouts" / "val" / "10.jsonl", {"input": "3 + 3?", "output": "6", "score": 1.0, "acc": 1})
    events = imported(tmp_path, tmp_path / "rollouts", options=ImportOptions(environment="Sums"))
    groups = [(group.iteration, group.split, len(group.members)) for group in events["group_started"]]
    assert groups == [(2, "train", 2), (10, "train", 2), (10, "eval", 1)]
    assert [metrics.iteration for metrics in events["metrics"]] == [2, 10]
    assert events["turn"][0].thought == "Hm."
    assert events["trajectory_finished"][0].extra["record"]["gts"] == "4"
    assert {group.environment for group in events["group_started"]} == {"Sums"}


def test_art_groups_are_read_from_json_lines_and_from_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    choice = {"finish_reason": "stop", "index": 0, "message": reply("4")}
    group = [
        {"messages_and_choices": [QUESTION, choice], "reward": reward, "metrics": {"moves": 3}} for reward in (1.0, 0.0)
    ]
    write_lines(tmp_path / "trajectories" / "train" / "0002.jsonl", {"trajectories": group})
    rows = [
        {"group_index": 0, "reward": 1.0, "messages": [QUESTION, reply("6")]},
        {"group_index": 0, "messages": [QUESTION]},
    ]
    folder = tmp_path / "trajectories" / "val"
    folder.mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "0002.parquet")
    events = imported(tmp_path, tmp_path / "trajectories")
    assert [(group.iteration, group.split, len(group.members)) for group in events["group_started"]] == [
        (2, "train", 2),
        (2, "eval", 2),
    ]
    assert events["trajectory_finished"][-1].error == "the file holds no response of the policy"


SAMPLE = {
    "id": "sum-1",
    "epoch": 1,
    "messages": [
        SYSTEM,
        QUESTION,
        {**reply("4"), "tool_calls": [{"id": "1", "function": "submit", "arguments": {"n": 4}}]},
    ],
    "scores": {"match": {"value": "C", "explanation": "right"}, "style": {"value": 0.5}},
    "target": "4",
    "model_usage": {"m-7b": {"output_tokens": 12}},
}
LOG = {"version": 2, "status": "success", "eval": {"task": "sums", "model": "m-7b"}, "samples": [SAMPLE]}


@pytest.mark.parametrize("archive", [False, True])
def test_inspect_logs_are_evaluations_with_scores(archive: bool, tmp_path: Path) -> None:
    if archive:
        file = tmp_path / "log.eval"
        with zipfile.ZipFile(file, "w") as packed:
            packed.writestr("header.json", json.dumps({"status": "success", "eval": LOG["eval"]}))
            packed.writestr("samples/sum-1_epoch_1.json", json.dumps(SAMPLE))
    else:
        file = tmp_path / "log.json"
        file.write_text(json.dumps(LOG, indent=1))
    events = imported(tmp_path, file)
    assert (events["evaluation"][0].suite, events["evaluation"][0].success) == ("sums", 1.0)
    (turn,), (end,) = events["turn"], events["trajectory_finished"]
    assert (turn.terms, turn.tokens, turn.actions[0].text) == ({"match": 1.0}, 12, 'submit({"n": 4})')
    assert (end.success, end.extra["record"]["scores"]["match"]["explanation"]) == (True, "right")


def compressed_log(file: Path) -> Path:
    """A log as Inspect writes it by default: members of one or more frames of Zstandard."""
    pyarrow = pytest.importorskip("pyarrow")
    members = {
        "header.json": json.dumps({"status": "success", "eval": LOG["eval"]}).encode(),
        "samples/sum-1_epoch_1.json": json.dumps(SAMPLE).encode(),
    }
    with zipfile.ZipFile(file, "w") as packed:
        for name, content in members.items():
            packed.writestr(name, b"".join(pyarrow.compress(part, "zstd", asbytes=True) for part in halves(content)))
            member = packed.getinfo(name)  # the directory at the end of the archive is written when it is closed
            member.compress_type, member.CRC, member.file_size = 93, zlib.crc32(content), len(content)
    return file


def halves(content: bytes) -> tuple[bytes, bytes]:
    return content[: len(content) // 2], content[len(content) // 2 :]


READERS = ("zstandard", "pyarrow")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python itself reads Zstandard")
@pytest.mark.parametrize("reader", READERS)
def test_inspect_archives_in_zstandard_are_read_with_the_package_that_is_there(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = compressed_log(tmp_path / "log.eval")
    pytest.importorskip(reader)
    for other in READERS:
        if other != reader:
            monkeypatch.setitem(sys.modules, other, None)
    events = imported(tmp_path, file)
    assert (events["evaluation"][0].suite, events["turn"][0].tokens) == ("sums", 12)
    damaged = tmp_path / "damaged.eval"
    damaged.write_bytes(file.read_bytes().replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfe"))
    with pytest.raises(ImportFailed, match=r"not a complete \.eval archive \(header\.json is not Zstandard"):
        import_files([damaged], tmp_path / "other")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python itself reads Zstandard")
def test_the_extra_is_named_where_no_package_reads_zstandard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = compressed_log(tmp_path / "log.eval")
    for reader in READERS:
        monkeypatch.setitem(sys.modules, reader, None)
    with pytest.raises(ImportFailed, match=r"pip install 'echoscope\[inspect\]', or write it as JSON with"):
        import_files([file], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def broken(tmp_path: Path, text: str, name: str = "bad.jsonl") -> Path:
    file = tmp_path / name
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"messages": []}\n{"messages"', r"bad\.jsonl, line 2: it is not JSON"),
        ('{"question": 1}', r"bad\.jsonl, line 1: its format is not known: its fields are question\. Chat transcripts"),
        ("[1]", r"line 1: it is a list\. Each record is an object"),
        ('{"messages": "hello"}', "line 1: the field messages is a text"),
        ('{"messages": [{"content": "x"}]}', "line 1: message 1 has no role: its fields are content"),
        ('{"messages": [{"role": "user", "content": 3}]}', "the content of message 1 is a number, not text or a list"),
        ('{"messages": [], "reward": "good"}', "line 1: the field reward is 'good', not a number"),
        ('{"messages": [], "step": 1.5}', r"line 1: the field step is 1\.5, not the number of an iteration"),
        ('{"input": 1, "output": "x"}', "line 1: the field input is no text"),
        (
            '{"prompt": [], "completion": null}',
            r"line 1: it has no messages: its fields are prompt, completion\. Rollouts",
        ),
        ('{"task": {}, "traces": [{"nodes": []}]}', "line 1: the trace has no messages: its fields are nodes"),
        ('{"task": {}, "traces": []}', "line 1: the episode has no traces: its fields are task, traces"),
        (
            '{"task": {}, "nodes": [{"parent": 0, "message": {}}]}',
            "the parent of node 1 of the trace is 0, not an earlier",
        ),
        ('{"task": {}, "nodes": [{"message": "x"}]}', "line 1: node 1 of the trace has no message"),
        ('{"trajectories": [{"reward": 1}]}', "line 1, trajectory 1: it has no messages_and_choices"),
        ("", "holds no attempts: it is empty"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=message):
        import_files([broken(tmp_path, text)], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_images_in_messages_are_recorded_where_they_are_embedded_and_others_stay_text(tmp_path: Path) -> None:
    seen = image_file()
    address = f"data:image/png;base64,{base64.b64encode(seen).decode()}"
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": address}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": address.partition(",")[2]}},
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,PHN2Zy8+"}},
        {"type": "input_image", "image_url": "data:image/png;base64,%%%"},
    ]
    sure = {"role": "user", "content": "Sure?"}
    messages = [{"role": "user", "content": parts}, reply("A square."), sure, reply("Yes.")]
    record = {"messages": messages, "reward": 1, "picture": address}
    events = imported(tmp_path, write_lines(tmp_path / "chat.jsonl", record))
    first, second = events["turn"]
    assert first.state.splitlines() == [
        "What is this?",
        "[image]",
        "[image]",
        "[image: https://example.org/cat.png]",
        "[image: The image is none of PNG, JPEG and WebP: pass a complete PNG, JPEG or WebP.]",
        "[image: The image is not in base64.]",
    ]
    assert [image.sha256 for image in first.images] == [sha256_of(seen)] * 2
    assert second.images is None
    assert [file.read_bytes() for file in (tmp_path / "run" / "images").iterdir()] == [seen]
    kept = events["trajectory_finished"][0].extra["record"]
    assert kept["picture"] == f"[image of {len(address):,} characters]", "a line of the journal has its limits"


def test_attempts_that_saw_different_images_are_of_different_groups(tmp_path: Path) -> None:
    records = []
    for colour in ("red", "red", "blue"):
        data = base64.b64encode(image_file(colour=colour)).decode()
        part = {"type": "image_url", "image_url": f"data:image/png;base64,{data}"}
        records.append({"messages": [{"role": "user", "content": [part]}, reply("A colour.")], "reward": 1})
    events = imported(tmp_path, write_lines(tmp_path / "chat.jsonl", *records))
    assert [len(group.members) for group in events["group_started"]] == [2, 1]


def test_attachments_of_inspect_logs_stand_in_their_places(tmp_path: Path) -> None:
    address = f"data:image/png;base64,{base64.b64encode(image_file()).decode()}"
    content = [{"type": "text", "text": "attachment://long"}, {"type": "image", "image": "attachment://seen"}]
    sample = {
        "id": 1,
        "epoch": 1,
        "messages": [{"role": "user", "content": content}, reply("A square.")],
        "attachments": {"long": "a long question", "seen": address},
        "scores": {"match": {"value": "C"}},
    }
    log = {"status": "success", "eval": {"task": "shapes"}, "samples": [sample]}
    file = tmp_path / "log.json"
    file.write_text(json.dumps(log))
    (turn,) = imported(tmp_path, file)["turn"]
    assert turn.state == "a long question\n[image]"
    assert [image.sha256 for image in turn.images] == [sha256_of(image_file())]


def test_nothing_is_left_of_a_failed_import_with_images(tmp_path: Path) -> None:
    part = {"type": "image_url", "image_url": f"data:image/png;base64,{base64.b64encode(image_file()).decode()}"}
    good = {"messages": [{"role": "user", "content": [part]}, reply("Yes.")], "iteration": 1, "reward": 1}
    file = write_lines(tmp_path / "chat.jsonl", good, {**good, "iteration": 2, "reward": "none"})
    with pytest.raises(ImportFailed):
        import_files([file], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_other_files_are_refused_with_what_to_do(tmp_path: Path) -> None:
    for name, text, message in [
        ("a.csv", "x", "convert it to JSON Lines"),
        ("a.parquet", "x", "not a complete Parquet file"),
        ("a.eval", "x", "not a complete .eval archive"),
        ("a.json", json.dumps({"status": "success", "eval": {"task": "t"}}), "the log has no samples"),
    ]:
        with pytest.raises(ImportFailed, match=message):
            import_files([broken(tmp_path, text, name)], tmp_path / "run")
    with pytest.raises(ImportFailed, match="does not exist"):
        find_files([tmp_path / "none"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImportFailed, match="name the folder that the tool wrote to"):
        find_files([tmp_path / "empty"])


def test_the_command_imports_without_a_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ECHOSCOPE_URL", raising=False)
    file = write_lines(tmp_path / "chats.jsonl", {"messages": [QUESTION, reply("4")], "reward": 0.6})
    out = tmp_path / "out"
    assert main(["import", str(file), "--out", str(out), "--success-at", "0.5", "--title", "Sums"]) == 0
    assert "1 trajectory, 1 by task, up to iteration 0" in capsys.readouterr().out
    events = list(read(out / "journal.jsonl"))
    assert (events[0].title, events[3].success) == ("Sums", True)
    assert main(["import", str(file), "--out", str(out)]) == 1
    assert "already holds a run" in capsys.readouterr().err
    assert main(["import", str(file), "--push"]) == 1
    assert "--push needs a site" in capsys.readouterr().err
