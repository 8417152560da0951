"""Journals of small scripted runs with every event, written by the trainer's own writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from envs.base import GridBoard, Hint
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from trainer.journal.writer import Journal

BOARD = GridBoard(theme="sokoban", rows=["#####", "#@$.#", "#####"])


def started(attempt: int = 1, from_iteration: int = 0, evaluated: int = -1) -> journal.RunStarted:
    return journal.RunStarted(
        attempt=attempt,
        from_iteration=from_iteration,
        evaluated_iteration=evaluated,
        iterations=4,
        title="Trial",
        config=RunConfig(iterations=4).model_dump(mode="json"),
        device="CPU, 1 thread",
        parameters=1000,
        versions={"python": "3.11"},
    )


def group(
    iteration: int, number: int, members: Sequence[str], split: str = "train", seed: int = 7
) -> journal.GroupStarted:
    return journal.GroupStarted(
        iteration=iteration,
        split=split,
        suite="fixed" if split == "eval" else None,
        group=number,
        environment="Sokoban",
        seed=seed,
        prompt="Push the box.",
        board=BOARD,
        hint=Hint(actions=["Right"], distance=1),
        members=list(members),
    )


def turn(trajectory: str, number: int, thought: str = "I push.", valid: bool = True) -> journal.Turn:
    return journal.Turn(
        trajectory=trajectory,
        turn=number,
        state="_ P X O _",
        response=f"<think>{thought}</think><answer>Right</answer>",
        thought=thought,
        answer="Right",
        format_valid=valid,
        problem=None if valid else "no answer",
        actions=[journal.ActionRecord(text="Right", status="executed", name="Right", reward=-0.1, board=BOARD)],
        reward=-0.1,
        terms={"environment": -0.1},
        tokens=9,
        truncated=False,
        entropy=0.5,
        logprob=-0.4,
    )


def end(trajectory: str, turns: int, success: bool = True) -> journal.TrajectoryFinished:
    return journal.TrajectoryFinished(
        trajectory=trajectory,
        success=success,
        end="terminated" if success else "turns",
        total_reward=10.0 if success else -1.0,
        turns=turns,
        actions=turns,
        tokens=9 * turns,
        lost_at=None if success else journal.LostAt(turn=0, action=0, reason="the box is in a corner"),
    )


def iteration(number: int, groups: int = 2, size: int = 2, turns: int = 2) -> Iterator[journal.Event]:
    """One rollout with interleaved turns, and its update."""
    names = {g: [f"{number}-{g}-{m}" for m in range(size)] for g in range(groups)}
    yield journal.Phase(phase="rollout", iteration=number, done=0, total=groups * size, unit="trajectories")
    for g, members in names.items():
        yield group(number, g, members)
    for k in range(turns):
        for g, members in names.items():
            for m, name in enumerate(members):
                yield turn(name, k, valid=(g + m + k) % 3 != 2)
    for g, members in names.items():
        for m, name in enumerate(members):
            yield end(name, turns, success=(g + m) % 2 == 0)
    yield journal.GroupsScored(
        iteration=number, groups=[journal.GroupScore(group=g, mean=1.0, std=0.5, kept=g == 0) for g in names]
    )
    yield journal.Metrics(
        iteration=number,
        tokens=100 * number,
        seconds=2.0 * number,
        values={"reward/mean": number / 10, "success/rate": 0.5, "entropy/mean": 1.0, "policy/loss": 0.1},
    )


def evaluation(number: int, prompts: int = 2) -> Iterator[journal.Event]:
    for g in range(prompts):
        name = f"e{number}-{g}"
        yield group(number, g, [name], split="eval")
        yield turn(name, 0)
        yield end(name, 1)
    yield journal.Evaluation(
        iteration=number,
        suite="fixed",
        prompts=prompts,
        success=0.5,
        success_low=0.1,
        success_high=0.9,
        mean_reward=1.0,
        mean_turns=1.0,
        mean_actions=1.0,
    )


def evaluation_first() -> Iterator[journal.Event]:
    yield started()
    yield from evaluation(0)


def whole_run(iterations: int = 2) -> Iterator[journal.Event]:
    """A run from its start to its end."""
    yield journal.Phase(phase="load", iteration=0)
    yield started()
    yield from evaluation(0)
    for number in range(1, iterations + 1):
        yield from iteration(number)
        yield journal.CheckpointSaved(iteration=number, path=f"checkpoints/{number:06d}", bytes=123)
        if number > 1:
            yield journal.CheckpointRemoved(iteration=number - 1)
    yield journal.Alarm(iteration=iterations, state="watch", message="The spread falls.", evidence={"spread": 0.1})
    yield journal.Notice(level="warning", message="The disk is nearly full.")
    yield from evaluation(iterations)
    yield journal.RunFinished(reason="completed", iteration=iterations, message="Done.", summary={"success": 0.5})


def write(folder: Path, *events: journal.Event) -> Path:
    """Append the events to the folder's journal. Returns its path."""
    writer = Journal(folder)
    if events:
        writer.write(*events)
    writer.close()
    return writer.path
