"""A scripted run whose trajectories differ in every filterable attribute, without real play."""

from __future__ import annotations

from collections.abc import Iterator

from envs.base import Claim, Hint
from tests.webapp.journal_builder import BOARD, started
from trainer.journal import events as journal
from trainer.journal.writer import Journal
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

NAMES = ("corner", "wall", "target", "player", "box", "row")
KINDS = ("box_position", "direction", None)
"""Kinds of the claims; a claim without one counts as other."""


def turn(key: str, number: int, mix: int) -> journal.Turn:
    valid = mix % 5 != 4
    thought = f"The {NAMES[mix % 6]} is at row {mix % 7}; I push_{number} once."
    answer = "Right || Down" if mix % 2 else "Left"
    return journal.Turn(
        trajectory=key,
        turn=number,
        state=f"_ P X O _ {number}",
        thought=thought,
        answer=answer,
        response=f"<think>{thought}</think><answer>{answer}</answer>",
        format_valid=valid,
        problem=None if valid else "no answer",
        reward=-0.1 * (1 + mix % 2),
        tokens=9 + mix % 4,
        actions=[
            journal.ActionRecord(text=name, status="executed", name=name, reward=-0.1, board=BOARD)
            for name in answer.split(" || ")
        ],
        terms={"environment": -0.1 * (1 + mix % 2)},
        truncated=False,
        entropy=0.5,
        logprob=-0.4,
        claims=[
            Claim(start=4 * index, end=4 * index + 3, true=index == 0, kind=KINDS[mix // 3 % 3])
            for index in range(mix % 3)
        ],
    )


def end(key: str, turns: list[journal.Turn], mix: int) -> journal.TrajectoryFinished:
    success = mix % 3 == 0
    kind = mix % 4
    stop = "terminated" if success else ("turns", "actions", "truncated", "interrupted")[kind]
    return journal.TrajectoryFinished(
        trajectory=key,
        success=success,
        end=stop,
        turns=len(turns),
        actions=sum(len(one.actions) for one in turns),
        tokens=sum(one.tokens for one in turns),
        total_reward=(10.0 if success else -1.0) - 0.25 * (mix % 6),
        lost_at=None if success or kind != 1 else journal.LostAt(turn=0, action=0, reason="the box is in a corner"),
        error=None if success or kind != 2 or mix % 8 != 2 else "the simulator gave up",
    )


def rollout_events(
    iteration: int, groups: int = 3, size: int = 4, split: str = "train", suite: str | None = None, rounds: int = 4
) -> Iterator[journal.Event]:
    """One rollout with interleaved turns, truncated after the given number of rounds."""
    members = {g: [f"{suite or split}-{iteration}-{g}-{m}" for m in range(size)] for g in range(groups)}
    for g, keys in members.items():
        yield journal.GroupStarted(
            iteration=iteration,
            split=split,
            suite=suite,
            group=g,
            environment="Sokoban" if g % 2 == 0 else "Bandit",
            seed=g if split == "eval" or g == 1 else 100 * iteration + g,
            prompt="Push the box.",
            board=BOARD,
            hint=Hint(actions=["Right"], distance=1),
            members=keys,
        )
    played: dict[str, list[journal.Turn]] = {}
    for number in range(rounds):
        for g, keys in members.items():
            for m, key in enumerate(keys):
                mix = 7 * iteration + 3 * g + m
                if number > mix % 4:
                    continue
                played.setdefault(key, []).append(turn(key, number, mix + number))
                yield played[key][-1]
                if number == mix % 4:
                    yield end(key, played[key], mix)


def scored(iteration: int, groups: int = 3) -> journal.GroupsScored:
    """The filter keeps the first and drops the others."""
    scores = [journal.GroupScore(group=g, mean=1.0, std=0.5, kept=g == 0) for g in range(groups)]
    return journal.GroupsScored(iteration=iteration, groups=scores)


def story() -> list[journal.Event]:
    """Five iterations with evaluations, temporary alarms, and a sixth in the middle of its rollout."""
    result: list[journal.Event] = [
        started(),
        journal.Phase(phase="evaluate", iteration=0, done=0, total=3, unit="prompts"),
        *rollout_events(0, size=1, split="eval", suite="fixed"),
    ]
    for number in range(1, 6):
        result += [*rollout_events(number), scored(number)]
        result.append(journal.Metrics(iteration=number, tokens=100, seconds=2.0, values={"reward/mean": 0.5}))
        if state := {2: "watch", 3: "trapped", 4: "healthy", 5: "watch"}.get(number):
            result.append(journal.Alarm(iteration=number, state=state, message="The spread changed."))
        if number % 2 == 0:
            result += [
                *rollout_events(number, size=1, split="eval", suite="fixed"),
                *rollout_events(number, 2, 2, "eval", "other"),
            ]
    return [*result, *rollout_events(6, rounds=2), *rollout_events(6, 1, 2, "eval", "fixed", rounds=0)]


def write_story(run: Run, events: list[journal.Event] | None = None) -> Run:
    """Write the story (or the given events) to the run's journal and ingest it."""
    run.refresh_from_db()
    if run.seq == 0:
        Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING)
    log = Journal(run.folder)
    log.write(*(story() if events is None else events))
    log.close()
    run.refresh_from_db()
    JournalTailer(run).drain()
    run.refresh_from_db()
    assert not run.journal_error
    return run


def mark_some(run: Run) -> Run:
    """Marks of ended attempts as the judge would store them, in turn from not judged yet to a blunder at turn 2."""
    ended = Trajectory.objects.filter(run=run, finished_seq__isnull=False).order_by("pk")
    for number, pk in enumerate(ended.values_list("pk", flat=True)):
        mark = (None, -1, 0, 1, 2, 3)[number % 6]
        turn = {2: 0, 3: 1}.get(mark or 0)
        Trajectory.objects.filter(pk=pk).update(worst_mark=mark, first_mistake_turn=turn)
    return run
