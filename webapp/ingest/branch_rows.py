"""Stores what a sampler process played: branches as attempts of a group, beginning with the recorded turns.

Nothing that the process says is trusted: its lines pass the limits of journals, and name branches by number only.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection, transaction

from trainer.journal.branches import Played
from trainer.journal.events import TrajectoryFinished, TrajectoryTokens, Turn
from webapp.branching.models import BranchQuestion
from webapp.ingest import writer
from webapp.ingest.lines import JournalLine, read_line
from webapp.runs import worker_requests
from webapp.trajectories.models import BRANCH, Group, Trajectory


class BranchesRefused(ValueError):
    """Events of branches that contradict each other. The message says which."""


@transaction.atomic
def do_begin_branches(question: BranchQuestion) -> bool:
    """Make the rows of the branches, with the turns before the position. False if the question was withdrawn."""
    held = worker_requests.held(question).select_for_update(of=("self",), no_key=True)
    if held.first() is None:
        return False
    Group._base_manager.filter(question=question).delete()  # of an earlier try, which is played again
    origin, turn = question.trajectory, question.turn or 0
    source = origin.group
    group = Group.objects.create(
        run=origin.run,
        attempt=origin.attempt,
        iteration=origin.iteration,
        split=BRANCH,
        suite=source.suite,
        number=question.pk,
        environment=source.environment,
        seed=source.seed,
        prompt=source.prompt,
        board=source.board,
        hint=source.hint,
    )
    made = Trajectory.objects.bulk_create(
        Trajectory(
            run=origin.run,
            group=group,
            attempt=origin.attempt,
            key=key_of(question, number),
            member=number,
            iteration=origin.iteration,
            split=BRANCH,
            last_seq=origin.last_seq,
            turn_count=turn,
        )
        for number in range(question.samples)
    )
    with connection.cursor() as cursor:
        cursor.execute(_COPY_TURNS, [[branch.pk for branch in made], origin.pk, turn])
    question.group = group
    BranchQuestion.objects.filter(pk=question.pk).update(group=group)
    return True


def do_forget_unfinished(question: BranchQuestion) -> None:
    """Delete the branches that have no end, after the question failed or was given back."""
    Trajectory.with_branches.filter(group__question=question, finished_seq=None).delete()


def key_of(question: BranchQuestion, number: int) -> str:
    """Return the key of a branch among the attempts of its run."""
    return f"branch-{question.pk}-{number:02d}"


@transaction.atomic
def do_store_played(question: BranchQuestion, played: Sequence[Played]) -> bool:
    """Store events of branches. False if the question was withdrawn.

    Raises:
        BranchesRefused: they do not continue the branches.
    """
    held = worker_requests.held(question).select_for_update(of=("self",), no_key=True).first()
    if held is None or held.group_id is None:
        return False
    origin = question.trajectory
    run = origin.run
    run.attempt = origin.attempt  # the attempt of the rows; the run is not saved
    lines = [_line(question, message, origin.last_seq + 1) for message in played]
    _require_consistent(held.group_id, lines)
    writer.write_played(run, [line for line in lines if not isinstance(line.event, TrajectoryTokens)])
    writer.write_tokens(run, [line.event for line in lines if isinstance(line.event, TrajectoryTokens)])
    return True


def _line(question: BranchQuestion, message: Played, seq: int) -> JournalLine:
    if message.branch >= question.samples:
        raise BranchesRefused(f"there is no branch {message.branch}")
    named = message.event.model_copy(update={"trajectory": key_of(question, message.branch), "seq": seq})
    line = read_line(named.model_dump_json(exclude_none=True).encode() + b"\n", seq)
    if line.left_out:
        raise BranchesRefused(line.left_out)
    return line


def _require_consistent(group: int, lines: Sequence[JournalLine]) -> None:
    rows = Trajectory.with_branches.filter(group=group).values_list("key", "turn_count", "finished_seq", "token_arrays")
    states = {key: writer.state_of(turns, ended, arrays) for key, turns, ended, arrays in rows}
    for line in lines:
        assert isinstance(line.event, Turn | TrajectoryFinished | TrajectoryTokens)
        if problem := writer.inconsistency(line.event, states):
            raise BranchesRefused(problem)


_COPY_TURNS = """
    INSERT INTO trajectories_turn (trajectory_id, number, seq, reward, format_valid, event, marks)
    SELECT branch, number, seq, reward, format_valid, event, marks
    FROM unnest(%s::bigint[]) AS branch
    JOIN trajectories_turn ON trajectory_id = %s AND number < %s
"""
