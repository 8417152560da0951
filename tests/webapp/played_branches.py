"""Questions about an attempt with the rows that a worker writes, for the tests of the pages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from django.utils import timezone

from trainer.journal.branches import Branches, Influences, Played, Share, TurnInfluence, TurnValue, Values
from trainer.journal.events import ActionRecord, TrajectoryFinished, Turn
from webapp.branching.models import BranchQuestion
from webapp.ingest.branch_rows import do_begin_branches, do_store_played
from webapp.teams.models import User
from webapp.trajectories.models import Trajectory

ACTIONS = (("Left", "Up"), ("Left",), ("Down", "Down", "Right"))


def ask(attempt: Trajectory, user: User, **values: Any) -> BranchQuestion:
    """A question that waits."""
    fields: dict[str, Any] = {"kind": "branch", "samples": 8, **values}
    if fields["kind"] == "branch":
        fields.setdefault("turn", 1)
    fields.setdefault("total", fields["samples"] * (1 if fields["kind"] == "branch" else attempt.turn_count))
    return BranchQuestion.objects.create(trajectory=attempt, requested_by=user, requested_at=timezone.now(), **fields)


def begin(question: BranchQuestion) -> None:
    """A worker holds the question; branches have their rows."""
    question.state, question.lease, question.seen_at = BranchQuestion.State.RUNNING, "lease", timezone.now()
    question.used_checkpoint = question.used_checkpoint or 1
    question.save()
    if question.kind == "branch":
        assert do_begin_branches(question)


def play_on(
    question: BranchQuestion, outcomes: Sequence[bool], *, variants: int = len(ACTIONS), turns: int = 1
) -> None:
    """The first branches are played: some turns each, with one of a few answers."""
    source = question.trajectory.turns.get(number=question.turn or 0).event
    played = []
    for number, solved in enumerate(outcomes):
        names = ACTIONS[number % min(variants, len(ACTIONS))] + ("Right",) * (number % variants // len(ACTIONS))
        answer = " || ".join(names)
        event = Turn.model_validate(
            {
                **source,
                "trajectory": "",
                "thought": f"Branch {number + 1} thinks.",
                "answer": answer,
                "response": f"<think>Branch {number + 1} thinks.</think><answer>{answer}</answer>",
                "actions": [ActionRecord(text=name, name=name, status="executed").model_dump() for name in names],
                "claims": None,
            }
        )
        end = TrajectoryFinished(
            trajectory="",
            success=solved,
            end="terminated" if solved else "turns",
            total_reward=10.0 if solved else -1.0,
            turns=event.turn + turns,
            actions=turns * len(names),
            tokens=20,
        )
        own = [event.model_copy(update={"turn": event.turn + further}) for further in range(turns)]
        played += [Played(id=question.slug, branch=number, event=each) for each in (*own, end)]
    assert do_store_played(question, played)
    question.done = len(outcomes)
    question.save()


def finish(question: BranchQuestion, result: Branches | Values | Influences) -> None:
    """The worker's last answer."""
    question.result, question.state = result.model_dump(), BranchQuestion.State.DONE
    question.done, question.answered_at, question.lease, question.partial = question.total, timezone.now(), "", {}
    question.save()


def share(solved: int, samples: int) -> Share:
    return Share(
        solved=solved,
        samples=samples,
        share=solved / samples,
        low=max(0.0, solved / samples - 0.2),
        high=min(1.0, solved / samples + 0.2),
    )


def branches(
    attempt: Trajectory, user: User, outcomes: Sequence[bool], variants: int = 3, turns: int = 1, **values: Any
) -> BranchQuestion:
    """A question whose branches are all played."""
    question = ask(attempt, user, samples=len(outcomes), **values)
    begin(question)
    play_on(question, outcomes, variants=variants, turns=turns)
    finish(question, Branches(solved=share(sum(outcomes), len(outcomes)), failed=0))
    return question


def branch_of(question: BranchQuestion, number: int = 0) -> Trajectory:
    """A branch as its page reads it, counted from 0."""
    rows = Trajectory.with_branches.select_related("group", "run__team")
    return rows.get(group=question.group_id, member=number)


def value(attempt: Trajectory, user: User, solved: Sequence[int], outcome: bool | None = False) -> BranchQuestion:
    """The value of each turn, of 16 continuations."""
    question = ask(attempt, user, kind="value", samples=16, used_checkpoint=1)
    shares = [number / 16 for number in solved] + ([] if outcome is None else [float(outcome)])
    falls = [before - after for before, after in pairwise(shares)] or [0.0]
    turns = [
        TurnValue(turn=turn, solved=share(number, 16), fall=falls[turn] if turn < len(falls) else 0.0)
        for turn, number in enumerate(solved)
    ]
    decisive = max(range(len(falls)), key=falls.__getitem__) if max(falls) > 0 else None
    finish(question, Values(turns=turns, outcome=outcome, decisive=decisive))
    return question


def thoughts(attempt: Trajectory, user: User) -> BranchQuestion:
    """Whether the thought matters: at the first turn it decides, at the others there is no other thought."""
    question = ask(attempt, user, kind="thoughts", samples=16, used_checkpoint=1)
    decides = TurnInfluence(
        turn=0,
        actions={
            "own": {"Left || Up": 12, "Down": 3, "": 1},
            "none": {"Down": 16},
            "other": {"Up": 9, "Left": 7},
            "false": {"Left || Up": 10, "Right": 6},
        },
        distances={"none": 0.81, "other": 0.94, "false": 0.38},
        influence=0.94,
        follows_false_claims=0.38,
        other="Target 2,5. Push Up from 4,4.",
        false="Target 3,3. Push Left from 3,5 to 3,3.",
        claims=2,
        kept_claims=0,
    )
    rest = [
        TurnInfluence(
            turn=turn,
            actions={"own": {"Left": 16}, "none": {"Left": 16}},
            distances={"none": 0.0},
            influence=0.0,
            follows_false_claims=None,
            other=None,
            false=None,
            claims=0,
            kept_claims=0,
        )
        for turn in range(1, attempt.turn_count)
    ]
    finish(question, Influences(turns=[decides, *rest], influence=0.47, follows_false_claims=0.38))
    return question
