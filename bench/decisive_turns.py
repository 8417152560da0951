"""How often value by play finds the turn of the move that the environment's solver calls fatal.

    python -m bench.decisive_turns RUN                 # 32 lost attempts of the run in a folder, 16 samples a turn
    python -m bench.decisive_turns RUN --attempts 100 --samples 32

An attempt is taken if the solver knows the action after which success was out of reach, and if it had several turns.
The turn of the steepest fall of the value is compared with the turn of that action. They need not be equal: the value
is the policy's, which may lose most of its chances before best play loses the last one. Attempts whose value is zero
from the beginning are counted apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainer.branching.asking import Asker
from trainer.branching.local_player import LocalPlayer
from trainer.branching.player import Weights
from trainer.branching.questions import answer
from trainer.journal import reader
from trainer.journal.branches import FindValue, Values
from trainer.journal.events import TrajectoryFinished
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops.recorded_attempts import choose_checkpoint, find_attempt
from trainer.metrics.statistics import wilson_interval
from trainer.studies import machine


@dataclass(frozen=True)
class Judged:
    """An attempt: turn of the steepest fall, turn that the solver names, and the value at the first turn."""

    trajectory: str
    fell: int | None
    lost: int
    turns: int
    first_value: float


def lost_attempts(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield ids of attempts that the solver calls lost, the latest first, with the turn of the action."""
    ends = [event for event in reader.read(folder / JOURNAL_FILE) if isinstance(event, TrajectoryFinished)]
    for end in reversed(ends):
        if end.lost_at is not None and end.turns > 1:
            yield end.trajectory, end.lost_at.turn


def judge(folder: Path, attempts: int, samples: int) -> list[Judged]:
    """Return the turns of the attempts; each is played by the kept weights that are nearest to those that played it."""
    players: dict[int, LocalPlayer] = {}
    judged = []
    for trajectory, lost in lost_attempts(folder):
        attempt = find_attempt(folder, trajectory)
        checkpoint = choose_checkpoint(folder, attempt.sampled_after)
        if checkpoint not in players:
            players[checkpoint] = LocalPlayer.load(Weights(folder, checkpoint), threads=1)
        question = FindValue(id=trajectory, trajectory=trajectory, samples=samples)
        values = answer(question, players[checkpoint], Asker(lambda message: None))
        assert isinstance(values, Values)
        first = values.turns[0].solved.share
        judged.append(Judged(trajectory, values.decisive, lost, len(attempt.turns), first))
        if len(judged) == attempts:
            break
    for player in players.values():
        player.close()
    return judged


def main() -> None:
    """Judge, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attempts", type=int, default=32)
    parser.add_argument("--samples", type=int, default=16)
    options = parser.parse_args()
    judged = judge(options.folder, options.attempts, options.samples)
    hopeless = [one for one in judged if one.fell is None]
    fallen = [one for one in judged if one.fell is not None]
    same = sum(one.fell == one.lost for one in fallen)
    near = sum(abs((one.fell or 0) - one.lost) <= 1 for one in fallen)
    print(f"{machine.describe()}; {len(judged)} lost attempts, {options.samples} samples a turn\n")
    for one in judged:
        fell = "none" if one.fell is None else str(one.fell + 1)
        print(f"{one.trajectory}: {one.turns} turns, value {one.first_value:.2f}; fell {fell}, solver {one.lost + 1}")
    if fallen:
        low, high = wilson_interval(same, len(fallen))
        share = f"{same / len(fallen):.0%}, 95 % interval {low:.0%} to {high:.0%}"
        print(f"\nsame turn: {same} of {len(fallen)} ({share})")
        print(f"at most one turn away: {near} of {len(fallen)}; no fall at all: {len(hopeless)}")


if __name__ == "__main__":
    main()
