"""Questions about attempts, answered by a worker with the real sampler process and with broken ones."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.patience import wait_until
from tests.webapp.conftest import People
from trainer.journal import token_arrays
from trainer.journal.branches import Branches, Change, Influences, Values
from webapp.branching.actions import do_ask, do_delete_question
from webapp.branching.asked import Asked, AskedWrongly, Kind, refusal
from webapp.branching.models import BranchQuestion
from webapp.ingest import marks
from webapp.ingest.rebuild import do_requested_rebuilds
from webapp.runs.actions import RequestRefused
from webapp.runs.models import Run, Worker
from webapp.runs.run_files import RunFiles
from webapp.trajectories.models import BRANCH, Group, TokenArrays, Trajectory, Turn
from webapp.trajectories.serialize import turn_events
from webapp.worker.computations import computation_limits, sampler_loop
from webapp.worker.computations.question_thread import QuestionAnswers
from webapp.worker.computations.sampler_process import Command, sampler_command

pytestmark = pytest.mark.django_db(transaction=True)
State = BranchQuestion.State
Threads = Callable[..., QuestionAnswers]
READY = '{"type": "ready", "checkpoint": 2, "device": "cpu"}'
SCRIPT = """
import json, sys, time
say = lambda **answer: print(json.dumps(answer), flush=True)
print({ready!r}, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    id = asked["id"]
"""


@pytest.fixture
def attempt(finished: Run) -> Trajectory:
    """A greedy attempt of the last evaluation, which has several turns."""
    attempts = Trajectory.objects.filter(run=finished, split="eval", iteration=2).select_related("group", "run")
    return max(attempts, key=lambda attempt: attempt.turn_count)


@pytest.fixture
def threads(worker: Worker) -> Iterator[Threads]:
    """Starts threads with a command, and ends them."""
    started: list[QuestionAnswers] = []

    def start(command: Command = sampler_command) -> QuestionAnswers:
        started.append(QuestionAnswers(worker.name, command, pace=0.02))
        started[-1].start()
        return started[-1]

    yield start
    for thread in started:
        thread.stop()


def says(code: str) -> Command:
    """A process that runs the code for each question, whose id is `id`."""
    script = SCRIPT.format(ready=READY) + "".join(f"    {line}\n" for line in code.splitlines())

    def command(files: RunFiles, checkpoint: int) -> Sequence[str]:
        return [sys.executable, "-c", script]

    return command


def ended(question: BranchQuestion) -> BranchQuestion:
    wait_until(lambda: not BranchQuestion.objects.filter(pk=question.pk, state__in=BranchQuestion.PENDING).exists())
    question.refresh_from_db()
    return question


def branches(question: BranchQuestion) -> list[Trajectory]:
    return list(Trajectory.with_branches.filter(group=question.group_id).order_by("member"))


def processes(folder: Path) -> list[str]:
    """Command lines of the processes that know the folder."""
    known = []
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdecimal() else ""
        except OSError:
            continue
        if str(folder) in text and int(entry.name) != os.getpid():
            known.append(text)
    return known


def test_the_real_sampler_plays_on_from_an_attempt(attempt: Trajectory, people: People, threads: Threads) -> None:
    turn = attempt.turn_count - 1
    same = do_ask(attempt, Asked(turn=turn, samples=2), people.owner)
    assert do_ask(attempt, Asked(turn=turn, samples=2), people.owner) == same
    threads()
    ended(same)
    assert (same.error, same.state) == ("", State.DONE)
    assert (same.used_checkpoint, same.encoded, same.done, same.total, same.partial) == (2, False, 2, 2, {})
    assert Branches.model_validate(same.result).solved.samples == 2
    recorded = turn_events(attempt)
    for branch in branches(same):
        assert branch.split == BRANCH
        assert (branch.status, branch.total_reward) == (attempt.status, pytest.approx(attempt.total_reward))
        assert (branch.turn_count, branch.action_count, branch.token_count) == (
            (attempt.turn_count, attempt.action_count, attempt.token_count)
        )
        played = turn_events(branch)
        assert played[:turn] == recorded[:turn], "the recorded turns come first"
        assert [event["response"] for event in played] == [event["response"] for event in recorded]
        assert TokenArrays.objects.filter(trajectory=branch).exists()
    jobs = attempt.run.folder.parents[1] / QuestionAnswers.FOLDER
    (warm,) = jobs.iterdir()
    changed = do_ask(
        attempt, Asked(turn=0, samples=3, temperature=1.0, change=Change(thought="Up."), fresh_luck=True), people.owner
    )
    value = do_ask(attempt, Asked(kind=Kind.VALUE, samples=2), people.owner)
    thoughts = do_ask(attempt, Asked(kind=Kind.THOUGHTS, samples=2), people.owner)
    assert ended(changed).error == ""
    assert {turn_events(branch)[0]["thought"] for branch in branches(changed)} == {"Up."}
    assert len(Values.model_validate(ended(value).result).turns) == attempt.turn_count
    influences = Influences.model_validate(ended(thoughts).result)
    assert any(turn.other for turn in influences.turns), "thoughts of other attempts were sent along"
    assert list(jobs.iterdir()) == [warm], "one process answered all"
    wait_until(lambda: not list((warm / "attempts").iterdir()))

    ahead = Trajectory.objects.filter(run=attempt.run)
    counted = ahead.count(), ahead.exclude(split__in=["train", "eval"]).count()
    assert counted == (attempt.run.trajectories.count(), 0), "branches count in no list"
    assert not Group.objects.filter(split=BRANCH).exists()
    marks.do_judge_attempts(marks.waiting())
    assert not Trajectory.with_branches.filter(split=BRANCH, worst_mark=None).exists(), "but they are judged"
    groups = [question.group_id for question in (same, changed)]
    do_delete_question(same)
    assert not Group._base_manager.filter(pk=groups[0]).exists()
    Trajectory.objects.filter(pk=attempt.pk).delete()
    assert not Trajectory.with_branches.filter(split=BRANCH).exists(), "branches go with their attempt"
    assert not Turn.objects.filter(trajectory__group__in=groups).exists()


def test_the_real_sampler_plays_on_from_branches(attempt: Trajectory, people: People, threads: Threads) -> None:
    threads()
    greedy = {"temperature": 0.0, "checkpoint": 0}
    changed = Asked(turn=0, samples=2, change=Change(answer="Nowhere"), **greedy)
    question = ended(do_ask(attempt, changed, people.owner))
    branch = branches(question)[1]
    assert branch.turn_count == 3
    assert turn_events(branch)[0]["answer"] == "Nowhere"
    asked = [question]
    for turn in (1, 2):
        question = do_ask(branch, Asked(turn=turn, samples=1), people.owner)
        assert (question.trajectory, question.temperature, question.checkpoint) == (branch, 0.0, 0)
        assert (ended(question).error, question.used_checkpoint, question.encoded) == ("", 0, False)
        (again,) = branches(question)
        assert_same(branch, again)
        branch = again
        asked.append(question)
    value = ended(do_ask(branch, Asked(kind=Kind.VALUE, samples=2), people.owner))
    thoughts = ended(do_ask(branch, Asked(kind=Kind.THOUGHTS, samples=2), people.owner))
    assert (value.error, thoughts.error) == ("", "")
    values = Values.model_validate(value.result)
    assert (len(values.turns), values.outcome) == (branch.turn_count, branch.success)
    assert any(turn.other for turn in Influences.model_validate(thoughts.result).turns)
    do_delete_question(asked[0])
    assert not BranchQuestion.objects.exists()
    assert not Trajectory.with_branches.filter(split=BRANCH).exists()
    assert Trajectory.objects.filter(pk=attempt.pk).exists()


def assert_same(one: Trajectory, other: Trajectory) -> None:
    """Assert that two branches were played equally, token for token."""
    columns = ("status", "end", "total_reward", "turn_count", "action_count", "token_count")
    assert [getattr(one, name) for name in columns] == [getattr(other, name) for name in columns]
    for first, second in zip(turn_events(one), turn_events(other), strict=True):
        for name in ("state", "response", "actions", "reward", "board"):
            assert first.get(name) == second.get(name), name
    first, second = (token_arrays.unpack(TokenArrays.objects.get(trajectory=played).data) for played in (one, other))
    assert (first.turns, first.ids.tolist()) == (second.turns, second.ids.tolist())
    assert np.allclose(first.logprobs, second.logprobs, atol=2e-3)


def test_a_branch_whose_text_was_cut_is_not_played_again(attempt: Trajectory, people: People, threads: Threads) -> None:
    question = do_ask(attempt, Asked(turn=0, samples=1), people.owner)
    threads(says(f"{event(TURN)}\n{event(END)}\nsay(**{json.loads(RESULT)!r}, id=id)"))
    (branch,) = branches(ended(question))
    (turn,) = branch.turns.all()
    turn.event["response"] = "Up … [1,234 more characters]"
    turn.save()
    value = do_ask(branch, Asked(kind=Kind.VALUE, samples=1), people.owner)
    assert ended(value).error == "Turn 1 of this branch was too long to be stored word for word."


def test_other_weights_answer(attempt: Trajectory, people: People, threads: Threads) -> None:
    nearest = do_ask(attempt, Asked(turn=0, samples=1, checkpoint=1), people.owner)
    initial = do_ask(attempt, Asked(turn=0, samples=1, checkpoint=0), people.owner)
    assert nearest != initial
    threads()
    assert (ended(nearest).used_checkpoint, ended(initial).used_checkpoint) == (2, 0)


TURN: dict[str, Any] = {
    "type": "turn", "seq": 1, "trajectory": "any", "turn": 0, "state": "s", "response": "r", "thought": "t",
    "answer": "Up", "format_valid": True, "actions": [], "reward": 0.0, "terms": {}, "tokens": 1, "truncated": False,
}  # fmt: skip
END = {
    "type": "trajectory_finished", "seq": 1, "trajectory": "any", "success": True, "end": "terminated",
    "total_reward": 1.0, "turns": 1, "actions": 0, "tokens": 1,
}  # fmt: skip


def event(values: dict[str, Any], branch: int = 0, identity: str = "id") -> str:
    return f"say(type='event', id={identity}, branch={branch}, event={values!r})"


BROKEN = {
    "print('{', flush=True)": "The answer of the policy's process is not valid: Invalid JSON",
    "print('[]', flush=True)": "The answer of the policy's process is not valid",
    "say(type='mail', id=id)": "The answer of the policy's process is not valid",
    event(TURN, branch=5): "there is no branch 5",
    f"{event(TURN)}\n{event(TURN)}": "has turn 0 of trajectory",
    f"{event(END)}\n{event(END)}": "which is not being played",
    event(TURN | {"turn": 3}): "where turn 0 was expected",
    "say(type='error', id=id, message='the environment differs at turn 2')": "The environment differs at turn 2.",
    "sys.exit('error: out of luck')": "The computation failed: out of luck.",
    "import os; os.kill(os.getpid(), 9)": "The computation was ended by SIGKILL",
    "print('x' * 40_000_000, flush=True)": "a line that is too long",
}


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_answer_is_a_sentence(attempt: Trajectory, people: People, threads: Threads, code: str) -> None:
    question = do_ask(attempt, Asked(turn=0, samples=2), people.owner)
    threads(says(code))
    assert BROKEN[code] in ended(question).error
    assert question.state == State.FAILED
    assert not Trajectory.with_branches.filter(split=BRANCH, finished_seq=None).exists(), "nothing half is left"
    again = do_ask(attempt, Asked(turn=0, samples=2), people.owner)
    assert again != question, "a question that failed can be asked again"


def test_finished_branches_survive_the_sampler(attempt: Trajectory, people: People, threads: Threads) -> None:
    question = do_ask(attempt, Asked(turn=0, samples=2), people.owner)
    stranger = event(TURN, branch=1, identity="'another'")
    threads(says(f"{event(TURN)}\n{event(END)}\n{stranger}\n{event(TURN, branch=1)}\ntime.sleep(0.5)\nsys.exit(1)"))
    ended(question)
    (kept,) = branches(question)
    assert (kept.member, kept.status, kept.turn_count) == (0, Trajectory.Status.SUCCESS, 1)


def test_a_withdrawn_question_ends(
    attempt: Trajectory, people: People, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_loop, "CANCEL_SECONDS", 1.0)
    jobs = attempt.run.folder.parents[1] / QuestionAnswers.FOLDER
    partial = "say(type='partial', id=id, branch=1, turn=0, text='So far\\0')"
    waits = f"{partial}\ntime.sleep(60)"
    threads(says(waits))
    question = do_ask(attempt, Asked(turn=0, samples=2), people.owner)
    wait_until(lambda: BranchQuestion.objects.filter(pk=question.pk).exclude(partial={}).exists())
    question.refresh_from_db()
    assert question.partial == {"1": {"turn": 0, "text": "So far"}}
    do_delete_question(question)
    wait_until(lambda: not list(jobs.iterdir()))
    assert not Trajectory.with_branches.filter(split=BRANCH).exists()
    assert not processes(jobs), "a process that does not stop is ended"


def test_a_stopping_worker_gives_the_question_back(attempt: Trajectory, people: People, threads: Threads) -> None:
    jobs = attempt.run.folder.parents[1] / QuestionAnswers.FOLDER
    thread = threads(says("say(type='progress', id=id, done=1, total=2)\ntime.sleep(60)"))
    question = do_ask(attempt, Asked(turn=0, samples=2), people.owner)
    wait_until(lambda: BranchQuestion.objects.filter(pk=question.pk, done=1).exists())
    began = time.monotonic()
    thread.stop()
    question.refresh_from_db()
    assert (question.state, question.attempts, question.lease) == (State.QUEUED, 0, "")
    assert not processes(jobs)
    assert not Trajectory.with_branches.filter(split=BRANCH).exists()
    assert time.monotonic() - began < 60, "it does not wait for the sampler"


def test_limits_of_a_question(
    attempt: Trajectory, people: People, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computation_limits, "TIME_LIMIT", 0.5)
    question = do_ask(attempt, Asked(turn=0, samples=2), people.owner)
    threads(says("time.sleep(60)"))
    assert "took longer than" in ended(question).error


def test_what_cannot_be_asked(attempt: Trajectory, people: People) -> None:
    last = attempt.turn_count
    for asked, field in (
        (Asked(turn=last), "turn"),
        (Asked(turn=None), "turn"),
        (Asked(kind=Kind.VALUE, turn=0), "turn"),
        (Asked(turn=0, change=Change(thought="a", answer="b")), "change"),
        (Asked(turn=0, change=Change(answer="")), "change"),
        (Asked(turn=0, change=Change(state="x" * 20_001)), "change"),
    ):
        with pytest.raises(AskedWrongly) as problem:
            do_ask(attempt, asked, people.owner)
        assert problem.value.field == field
    run = attempt.run
    for changes, reason in (
        ({"imported": True}, "this run was trained elsewhere"),
        ({"config": run.config | {"hosted": {"url": "http://localhost:1"}}}, "the weights of a hosted model"),
    ):
        Run.objects.filter(pk=run.pk).update(**changes)
        again = Trajectory.objects.select_related("run", "group").get(pk=attempt.pk)
        assert reason in refusal(again)
        with pytest.raises(RequestRefused, match=reason):
            do_ask(again, Asked(turn=0), people.owner)
        Run.objects.filter(pk=run.pk).update(imported=run.imported, config=run.config)


def test_branches_stay_when_the_tables_are_rebuilt(attempt: Trajectory, people: People, threads: Threads) -> None:
    question = do_ask(attempt, Asked(turn=0, samples=1), people.owner)
    threads(says(f"{event(TURN)}\n{event(END)}\nsay(**{json.loads(RESULT)!r}, id=id)"))
    (branch,) = branches(ended(question))
    Run.objects.filter(pk=attempt.run_id).update(rebuild_requested=True)
    do_requested_rebuilds()
    kept = Trajectory.with_branches.get(slug=branch.slug)
    assert (kept.status, kept.turn_count) == (Trajectory.Status.SUCCESS, 1)


SHARE = '{"solved": 1, "samples": 1, "share": 1.0, "low": 0.2, "high": 1.0}'
RESULT = f'{{"type": "branches", "solved": {SHARE}, "failed": 0}}'
