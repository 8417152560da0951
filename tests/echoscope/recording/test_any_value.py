"""Whatever a training loop passes to the recorder, nothing is raised, and a site takes every line that was written."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
import re
import warnings
import weakref
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import echoscope
from echoscope.recording.journal_writer import JournalWriter
from echoscope.recording.json_values import as_json, number_in
from tests.echoscope.recording.caught_warnings import caught_warnings
from tests.webapp.conftest import People
from trainer.journal.events import AnyEvent
from trainer.journal.reader import read
from webapp.api.uploads import first_event
from webapp.ingest.imports import do_create_imported_run
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run


class Speechless:
    """An object that fails wherever it is looked at."""

    def __str__(self) -> str:
        raise ZeroDivisionError("no text")

    __repr__ = __float__ = __index__ = __bool__ = __str__  # type: ignore[assignment]


class Unspeakable(Exception):
    __str__ = __bool__ = Speechless.__str__  # type: ignore[assignment]


class Unreadable(Mapping[Any, Any]):
    """A mapping whose error fails as well, as settings with an unresolved reference might."""

    def __getitem__(self, name: Any) -> Any:
        raise Unspeakable

    def __iter__(self) -> Any:
        raise Unspeakable

    def __len__(self) -> int:
        return 1


class Unequal(str):
    """A text that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise Unspeakable

    __hash__ = str.__hash__


class Overflowing:
    """A number that has no sign."""

    def __float__(self) -> float:
        raise OverflowError


def dead() -> Any:
    """A proxy of an object that is gone, which fails where its class is looked up."""
    return weakref.proxy(Speechless())


def shared(levels: int) -> Any:
    """Lists that have 2^levels lists in them, as objects that refer to each other may have."""
    value: Any = ["core"]
    for _ in range(levels):
        value = [value, value]
    return value


def endless() -> list[Any]:
    inner: list[Any] = []
    inner += [inner, inner]
    return inner


def deep(levels: int) -> Any:
    value: Any = "core"
    for _ in range(levels):
        value = [value]
    return value


VALUES: list[Any] = [
    *(None, True, 0, 1, -1, 7, 2**31, 2**53, 2**63, -(2**70), 10**400, 10**5000),
    *(0.5, 2.0, -0.0, 1e308, math.nan, math.inf, -math.inf, 1j, Decimal("0.5"), Decimal("nan")),
    *(np.bool_(True), np.int64(3), np.float32(0.5), np.float32("nan"), np.zeros(3), np.array("x"), np.array(None)),
    *(torch.tensor(0.5), torch.tensor(3), torch.tensor(True), torch.tensor(math.nan), torch.ones(2)),
    *("", "a", "validation", "half \ud83d of it", "\ud83d\ude00", "nul \0", "w" * 300, "ж" * 600_000),
    *(b"\xff bytes", [], ["a"], [1, None], (), {}, {"a": 1}, {"a": {"b": {1}}}, {1: math.nan}, {"\ud83d": "\ud83d"}),
    *({"kind": "grid"}, {"kind": "grid", "rows": [1]}, {"kind": "arms"}, {"text": 3, "status": "odd", "foo": 1}),
    *([{"call": {"tool": 1, "arguments": [1]}}], [{"board": 1, "hint": {"distance": "far"}}], ["up"] * 300),
    *([{"text": "t", "call": {"tool": "t", "arguments": {"q": "ж" * 90_000}, "result": "ж" * 90_000}}] * 3,),
    *({f"{'n' * 200}{number}": number for number in range(1500)} for _ in range(1)),
    *(Speechless(), [Speechless()], object(), int, lambda: None, deep(3000), endless()),
    *(Unreadable(), [Unreadable()], Unequal("a"), Overflowing(), dead(), {"a": dead()}),
]

Call = Callable[[echoscope.Recorder, echoscope.Trajectory, Any], object]


def turn(name: str) -> Call:
    return lambda run, attempt, value: attempt.turn(**{"state": "s", "response": "r", name: value})


def group(name: str) -> Call:
    return lambda run, attempt, value: [
        member.turn(state="s", response="r") for member in run.group(**{"size": 2, "prompt": "p", name: value})[:3]
    ]


def evaluation(name: str) -> Call:
    numbers = {"suite": "S", "iteration": 1, "prompts": 2, "trajectories": 4, "successes": 1}
    return lambda run, attempt, value: run.evaluation(**{**numbers, name: value})


def end(name: str) -> Call:
    return lambda run, attempt, value: run.trajectory(prompt="p").finish(**{"success": True, name: value})


TURN = [
    "state",
    "images",
    "response",
    "thought",
    "answer",
    "actions",
    "reward",
    "terms",
    "tokens",
    "logprob",
    "entropy",
    "valid",
    "problem",
    "board",
    "truncated",
    "tool_calls",
    "extra_field",
]
GROUP = ["size", "prompt", "iteration", "environment", "seed", "split", "suite", "board", "extra_field"]
EVALUATION = [
    "suite",
    "iteration",
    "prompts",
    "trajectories",
    "successes",
    "mean_reward",
    "mean_turns",
    "mean_actions",
    "final",
    "extra_field",
]
CALLS: dict[str, Call] = {
    **{f"turn({name}=)": turn(name) for name in TURN},
    **{f"group({name}=)": group(name) for name in GROUP},
    **{f"evaluation({name}=)": evaluation(name) for name in EVALUATION},
    **{f"Trajectory.finish({name}=)": end(name) for name in ("success", "end", "total_reward", "error", "extra_field")},
    "log(values)": lambda run, attempt, value: run.log(value),
    "log({name: 1})": lambda run, attempt, value: run.log({_hashable(value): 1.0}),
    "log({'a': value})": lambda run, attempt, value: run.log({"a": value}),
    "log(iteration=)": lambda run, attempt, value: run.log({"a": 1.0}, iteration=value),
    "log(note=)": lambda run, attempt, value: run.log({"a": 1.0}, note=value),
    "used(trained)": lambda run, attempt, value: run.used(value, filtered=[attempt]),
    "used(iteration=)": lambda run, attempt, value: run.used([attempt], iteration=value),
    "used(filtered=)": lambda run, attempt, value: run.used([], filtered=value),
    "used(name=)": lambda run, attempt, value: run.used([attempt], **{_shown(value): [attempt]}),
    "notice(message)": lambda run, attempt, value: run.notice(value),
    "notice(level=)": lambda run, attempt, value: run.notice("m", level=value),
    "notice(note=)": lambda run, attempt, value: run.notice("m", note=value),
    "finish(reason=)": lambda run, attempt, value: run.finish(reason=value),
    "finish(message=)": lambda run, attempt, value: run.finish(message=value),
    "finish(summary=)": lambda run, attempt, value: run.finish(summary=value),
    "finish(timeout=)": lambda run, attempt, value: run.finish(timeout=value),
    "no such argument": lambda run, attempt, value: (
        run.log(),
        run.group(),
        run.trajectory(value).turn(value),  # type: ignore[call-arg,func-returns-value]
        run.evaluation("S", value),  # type: ignore[call-arg]
    ),
}


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return text if (text := _shown(value)) else "empty"
    return value


def _shown(value: Any) -> str:
    try:
        return str(value)[:500]
    except (ZeroDivisionError, RecursionError, ValueError, ReferenceError):
        return "no text"


def ingested(run: Run, folder: Path) -> list[AnyEvent]:
    """The events of the journal, all of which the site has taken."""
    JournalTailer(run, folder).drain()
    run.refresh_from_db()
    events = list(read(folder / "journal.jsonl"))
    assert (run.journal_error, run.seq) == ("", len(events))
    return events


@pytest.mark.django_db
@pytest.mark.parametrize("call", CALLS)
def test_no_value_ends_a_training_or_a_journal(call: str, run: Run, tmp_path: Path) -> None:
    recorder = echoscope.init("Any", folder=tmp_path, environment="E")
    with caught_warnings() as messages:
        for value in VALUES:
            with recorder.trajectory(prompt="p", iteration=1) as attempt:
                CALLS[call](recorder, attempt, value)
                attempt.turn(state="s", response="r")
    assert len(set(messages)) == len(messages), "each is emitted once"
    events = ingested(run, tmp_path)
    turns = [event for event in events if event.type == "turn" and event.state == "s"]
    assert len(turns) >= len(VALUES), "the turns after each value"
    assert len([event for event in events if event.type == "trajectory_finished"]) >= len(VALUES)


def begin(folder: Path, name: str, value: Any) -> echoscope.Recorder:
    with caught_warnings():
        return echoscope.init(**{"title": "Any", "folder": folder, name: value})


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["title", "config", "environment", "iterations", "tags"])
def test_no_value_prevents_a_run(name: str, people: People, tmp_path: Path) -> None:
    for number, value in enumerate(VALUES):
        folder = tmp_path / f"{number}"
        begin(folder, name, value).log({"loss": 1.0})
        started, _ = first_event(iter([(folder / "journal.jsonl").read_bytes()]))
        assert do_create_imported_run(people.team, people.owner, started).title


def test_a_run_continues_from_no_iteration_below_0(tmp_path: Path) -> None:
    for value in VALUES:
        number = number_in(value)
        if number is not None and number < 0:
            with pytest.raises(ValueError, match="a number of finished iterations, from 0 on"):
                begin(tmp_path, "from_iteration", value)
        else:
            begin(tmp_path, "from_iteration", value)
    starts = {event.from_iteration for event in recorded(tmp_path, "run_started")}
    assert starts == {0, 1, 2, 3, 7}


def recorded(folder: Path, kind: str) -> list[Any]:
    return [event for event in read(folder / "journal.jsonl") if event.type == kind]


def quietly(folder: Path) -> tuple[echoscope.Recorder, echoscope.Trajectory]:
    run = echoscope.init("Values", folder=folder)
    return run, run.trajectory(prompt="p", iteration=1)


def test_numbers_of_numpy_and_torch_are_numbers(tmp_path: Path) -> None:
    run, attempt = quietly(tmp_path)
    with caught_warnings() as messages:
        attempt.turn(
            state="s", response=None, terms={"a": np.float32(0.5), "b": torch.tensor(0.25)}, tokens=np.int64(12),
            valid=np.bool_(True), entropy=torch.tensor(1.5),
        )  # fmt: skip
        attempt.finish(success=np.bool_(True), total_reward=np.float64(2))
        run.group(np.int64(2), prompt="p", seed=np.int64(7), iteration=np.int64(3))
        run.trajectory(prompt="p", iteration=2.0).finish(success=1)
        run.evaluation("S", iteration=0, prompts=np.int64(2), trajectories=np.int64(4), successes=np.sum([True, False]))
    assert messages == []
    (turned,) = recorded(tmp_path, "turn")
    assert (turned.response, turned.terms, turned.tokens) == ("", {"a": 0.5, "b": 0.25}, 12)
    assert (turned.reward, turned.format_valid, turned.entropy) == (0.75, True, 1.5)
    assert [event.success for event in recorded(tmp_path, "trajectory_finished")] == [True, True]
    assert [(event.seed, event.iteration) for event in recorded(tmp_path, "group_started")][1] == (7, 3)
    assert recorded(tmp_path, "evaluation")[0].success == 0.25


def test_a_reward_that_is_not_finite_is_not_known_with_one_warning(tmp_path: Path) -> None:
    _, attempt = quietly(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        for _ in range(3):
            attempt.turn(state="s", response="r", reward=math.nan, terms={"right": math.inf, "format": 0.5})
        attempt.finish(success=None)
    assert [str(warning.message) for warning in caught] == [
        "terms['right'] of turn() is inf and is recorded as not known. This warning is not repeated.",
        "reward of turn() is nan and is recorded as not known. This warning is not repeated.",
    ]
    assert {warning.filename for warning in caught} == {__file__}
    assert [event.terms for event in recorded(tmp_path, "turn")] == [{"format": 0.5}] * 3
    assert recorded(tmp_path, "trajectory_finished")[0].total_reward is None


def test_what_no_site_takes_is_converted_and_named_at_the_call(tmp_path: Path) -> None:
    run, attempt = quietly(tmp_path)
    with caught_warnings() as messages:
        attempt.turn(state={"cell": [1, 2]}, response="half \ud83d of it", thought=None)
        attempt.finish(success=None, end="timeout")  # type: ignore[arg-type]
        run.group(1, prompt="p", seed="a", split="Validation", iteration=-1)  # type: ignore[arg-type]
        run.log({"train": {"loss": 1.0}}, iteration=1_732_700_000)
    said = "\n".join(messages)
    assert "state of turn() is of type dict, and its text is recorded: pass a text." in said
    assert "end of finish() is 'timeout' and is recorded as 'truncated': pass one of" in said
    assert "iteration of group() is -1 and is recorded as not known: pass a whole number from 0" in said
    assert "iteration of log() is 1.7327e+09 and is recorded as not known" in said
    (turned,) = recorded(tmp_path, "turn")
    assert (turned.state, turned.response, turned.thought) == (
        '{"cell": [1, 2]}',
        "half \N{REPLACEMENT CHARACTER} of it",
        "",
    )
    begun = recorded(tmp_path, "group_started")[1]
    assert (begun.split, begun.iteration) == ("eval", 1)
    assert recorded(tmp_path, "metrics")[0].values == {"train/loss": 1.0}


def test_a_seed_that_is_no_number_is_the_same_task_again(tmp_path: Path) -> None:
    run, _ = quietly(tmp_path)
    with caught_warnings() as messages:
        for seed in ("a", "b", "a", 2**64, 2**64 + 1):
            run.group(1, prompt="p", seed=seed)  # type: ignore[arg-type]
    assert ["a hash of it is recorded" in message for message in messages] == [True]
    first, second, again, large, larger = [event.seed for event in recorded(tmp_path, "group_started")][1:]
    assert first == again
    assert len({first, second, large, larger}) == 4


@pytest.mark.django_db
def test_a_turn_that_is_too_long_is_cut_with_a_warning_and_reaches_the_site(run: Run, tmp_path: Path) -> None:
    _, attempt = quietly(tmp_path)
    with caught_warnings() as messages:
        attempt.turn(state="ж" * 2_600_000, response="short", judge={"note": "n" * 100_000})
        attempt.turn(state="next", response="r", actions=[{"call": {"tool": "t", "result": "ж" * 90_000}}] * 3)
        attempt.finish(success=True)
    (message,) = messages
    assert re.match(r"An event of type turn has 5,300,\d+ bytes, and sites read at most 1,048,576", message)
    turns = [event for event in ingested(run, tmp_path) if event.type == "turn"]
    assert [(event.response, event.state[:4]) for event in turns] == [("short", "жжжж"), ("r", "next")]
    assert turns[0].state.endswith("more characters]")


@pytest.mark.django_db
def test_more_turns_actions_and_members_than_sites_store_are_left_out(run: Run, tmp_path: Path) -> None:
    recorder, attempt = quietly(tmp_path)
    with caught_warnings() as messages:
        for _ in range(1002):
            attempt.turn(state="s", response="r")
        attempt.finish(success=True)
        members = recorder.group(4098, prompt="p")
        for member in members:
            member.finish(success=False)
    assert (len(messages), len(members)) == (2, 4098)
    events = ingested(run, tmp_path)
    assert [event.turns for event in events if event.type == "trajectory_finished" and event.success] == [1000]
    assert len([event for event in events if event.type == "trajectory_finished"]) == 4097


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner) | st.sets(st.integers()),
        max_leaves=20,
    )
)
def test_every_value_has_json_that_can_be_sent(value: Any) -> None:
    text = json.dumps(as_json(value), ensure_ascii=False, allow_nan=False)
    assert json.loads(text.encode()) == as_json(json.loads(text))


def test_values_that_share_others_are_cut_to_what_a_line_can_have(tmp_path: Path) -> None:
    assert len(json.dumps(as_json(shared(60)))) < 2**20
    _, attempt = quietly(tmp_path)
    with caught_warnings():
        attempt.turn(state="s", response="r", actions=itertools.repeat("up"), note=shared(60))  # type: ignore[arg-type]
    (turned,) = recorded(tmp_path, "turn")
    assert (turned.state, len(turned.actions)) == ("s", 200)


def test_an_argument_that_fails_where_it_is_read_costs_itself(tmp_path: Path) -> None:
    with caught_warnings() as messages:
        run = echoscope.init(dead(), folder=tmp_path, config={"a": 1, "b": dead()}, tags=Unreadable())  # type: ignore[arg-type]
        run.trajectory(prompt="p").turn(state=Unreadable(), response="r", reward=1, thought=dead())  # type: ignore[arg-type]
    settings = recorded(tmp_path, "run_started")[0].config["recorded"]
    assert (settings["a"], settings["b"]) == (1, f"[{type(dead()).__name__}]")
    assert [(turned.response, turned.reward) for turned in recorded(tmp_path, "turn")] == [("r", 1.0)]
    assert [message for message in messages if message.startswith("thought of turn() fails where it is read (Ref")]


def test_a_warning_that_is_turned_into_an_error_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, _ = quietly(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.log({"loss": math.nan, "lr": 0.5}, iteration=1)
    assert recorded(tmp_path, "metrics")[0].values == {"lr": 0.5}
    assert "RuntimeWarning: loss is not a finite number (nan)" in capsys.readouterr().err


def test_an_error_without_a_text_ends_its_attempt_and_is_raised_itself(tmp_path: Path) -> None:
    run = echoscope.init("Errors", folder=tmp_path)
    with pytest.raises(Unspeakable), run, run.trajectory(prompt="p"):
        raise Unspeakable
    assert recorded(tmp_path, "trajectory_finished")[0].error == "Unspeakable: [Unspeakable]"
    assert recorded(tmp_path, "run_finished")[0].reason == "error"


def test_a_copy_of_a_recorder_as_other_processes_get_it_records_the_same_run(tmp_path: Path) -> None:
    run = echoscope.init("Copied", folder=tmp_path, environment="E")
    attempt = run.trajectory(prompt="p", iteration=1)
    copy.deepcopy(run).log({"loss": 1.0}, iteration=1)
    there, played = pickle.loads(pickle.dumps((run, attempt)))
    with played:
        played.turn(state="s", response="r")
    there.log({"loss": 0.5}, iteration=2)
    run.finish()
    kinds = ["run_started", "group_started", "metrics", "turn", "trajectory_finished", "metrics", "run_finished"]
    assert [event.type for event in read(tmp_path / "journal.jsonl")] == kinds


def test_a_folder_may_be_anything_that_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (7, "text", b"bytes", np.int64(8), Path("path"), None):
        run = echoscope.init("Folder", folder=folder)  # type: ignore[arg-type]
        run.log({"loss": 1.0})
        assert len(list(read(run.folder / "journal.jsonl"))) == 2
    with pytest.raises(ValueError, match="is no address of a site"):
        echoscope.init("Folder", folder="text", url=7, token="es_x")  # type: ignore[arg-type]


def test_calls_after_the_end_are_named_once(tmp_path: Path) -> None:
    _, attempt = quietly(tmp_path)
    attempt.finish(success=True)
    with caught_warnings() as messages:
        attempt.turn(state="s", response="r")
        attempt.turn(state="s", response="r")
    assert ["it has ended: begin another one" in message for message in messages] == [True]
    assert recorded(tmp_path, "turn") == []
    assert (tmp_path / JournalWriter.FILE).read_bytes().count(b"\n") == 3
