"""The sampler process: every line has an answer, no line ends it, and the end of its input does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.branching.recordings import attempts, load, record
from trainer.branching.local_player import LocalPlayer
from trainer.branching.sampler_process import serve
from trainer.journal.branches import END_TYPES, MAX_LINE
from trainer.loops.recorded_attempts import find_attempt

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("served"), prompts=1)


@pytest.fixture(scope="module")
def player(folder: Path) -> LocalPlayer:
    return load(folder)


class Client:
    """The other end of a sampler's pipes."""

    def __init__(self, questions: Any, answers: Any) -> None:
        self.questions, self.answers = questions, answers

    def send(self, *lines: bytes | dict[str, Any]) -> None:
        for line in lines:
            self.questions.write((json.dumps(line).encode() if isinstance(line, dict) else line) + b"\n")
        self.questions.flush()

    def read(self) -> dict[str, Any]:
        return json.loads(self.answers.readline())

    def until(self, identity: str) -> list[dict[str, Any]]:
        """The answers up to the last one to a question."""
        found = [self.read()]
        while not (found[-1].get("id") == identity and found[-1]["type"] in END_TYPES):
            found.append(self.read())
        return found


@contextmanager
def served(player: LocalPlayer) -> Iterator[Client]:
    """A sampler in a thread, which ends when its input does."""
    (question_end, question_start), (answer_end, answer_start) = os.pipe(), os.pipe()
    source, target = os.fdopen(question_end, "rb"), os.fdopen(answer_start, "wb")
    thread = Thread(target=serve, args=(player, source, target))
    thread.start()
    with os.fdopen(question_start, "wb") as questions, os.fdopen(answer_end, "rb") as answers:
        client = Client(questions, answers)
        assert client.read()["type"] == "ready"
        yield client
        questions.close()
        thread.join(60)
        assert not thread.is_alive()
    source.close()
    target.close()


def question(run: Path, identity: str = "q", **more: Any) -> dict[str, Any]:
    return {"do": "branch", "id": identity, "trajectory": attempts(run)[0], "turn": 0, "temperature": 0, **more}


words = st.sampled_from(["do", "id", "branch", "cancel", "value", "trajectory", "turn", "samples", "change", "thought"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=6),
    max_leaves=8,
)
lines = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")) | values.map(lambda v: json.dumps(v).encode())


@given(st.lists(lines, max_size=12))
def test_no_line_ends_it(player: LocalPlayer, folder: Path, found: list[bytes]) -> None:
    with served(player) as client:
        client.send(*found, question(folder, "the last one", turn=99))
        *earlier, last = client.until("the last one")
    assert (
        last["message"]
        == f"there is no turn 100: the attempt has {len(find_attempt(folder, attempts(folder)[0]).turns)}"
    )
    assert [answer["type"] for answer in earlier] == ["error"] * len([line for line in found if line.strip()])
    assert all(answer["message"] for answer in earlier)


def test_questions_are_answered_in_order_and_refused_in_sentences(player: LocalPlayer, folder: Path) -> None:
    with served(player) as client:
        client.send(
            b"x" * (MAX_LINE + 10),
            question(folder, "a", samples=2),
            question(folder, "b", samples=1000),
            question(folder, "c", folder="/nowhere"),
            {"do": "cancel", "id": "nobody"},
            {"do": "corrections", "id": "e", "samples": 1},
            {"do": "survey", "id": "f", "samples": 1, "suite": "Bandit"},
            {"do": "thoughts", "id": "d", "trajectory": attempts(folder)[0], "samples": 1},
        )
        found = client.until("d")
    errors = [answer["message"] for answer in found if answer["type"] == "error"]
    assert sorted(errors) == sorted(
        [
            "a line is longer than 1,048,576 bytes",
            "this line is no question: branch.samples: Input should be less than or equal to 64",
            "/nowhere holds no journal of a run",
            "there is no question with the id 'nobody'",
            "this run was not evaluated in Bandit; its suites are Sokoban",
        ]
    )
    own = [answer for answer in found if answer.get("id") == "a"]
    assert own[0] == {"type": "restored", "id": "a", "turn": 0, "tokens": "recorded", "beginning": ""}
    assert own[-1]["solved"]["samples"] == 2
    kinds = {answer["event"]["type"] for answer in own if answer["type"] == "event"}
    assert kinds == {"turn", "trajectory_finished", "trajectory_tokens"}
    partial = next(answer for answer in own if answer["type"] == "partial")
    turn = next(answer["event"] for answer in own if answer["type"] == "event" and answer["branch"] == 0)
    assert turn["response"].startswith(partial["text"].rstrip("\N{REPLACEMENT CHARACTER}"))
    assert found[-1]["type"] == "influences"


def test_a_question_is_cancelled_while_it_is_played_or_waits(player: LocalPlayer, folder: Path) -> None:
    with served(player) as client:
        client.send(question(folder, "a", samples=64, temperature=2), question(folder, "b"), question(folder, "a"))
        first = client.read()
        while first["type"] != "partial":
            first = client.read()
        client.send({"do": "cancel", "id": "b"}, {"do": "cancel", "id": "a"}, question(folder, "c"))
        found = client.until("c")
    ends = [(answer["id"], answer["type"]) for answer in found if answer["type"] in END_TYPES and answer["id"]]
    assert ends == [("a", "cancelled"), ("b", "cancelled"), ("c", "branches")]


def test_a_closed_input_ends_the_process_in_the_middle_of_a_question(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "trainer", "sampler", str(folder), "--threads", "1"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        client = Client(process.stdin, process.stdout)
        ready = client.read()
        assert (ready["type"], ready["checkpoint"]) == ("ready", 0)
        client.send(question(folder, samples=64, temperature=2))
        while client.read()["type"] != "partial":
            pass
        process.stdin.close()
        assert process.wait(60) == 0


def test_without_weights_the_process_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trainer", "sampler", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"error: {tmp_path} holds no journal of a run" in ended.stderr
