"""Filled database: many runs and tens of thousands of trajectories, inserted by COPY."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webapp.runs.models import Run
    from webapp.teams.models import Team, User
    from webapp.trajectories.models import Group, Trajectory

GROUPS, SIZE, PROMPTS = 8, 16, 256
TRAJECTORIES = GROUPS * SIZE
EVALUATION_INTERVAL = 10
SHORTEST_CURVE = 40
METRICS = ("reward/mean", "reward/in_group_std", "success/rate", "entropy/mean", "policy/grad_norm")
THOUGHT, TRAJECTORY = "THE-THOUGHT", "THE-TRAJECTORY"
START, PRESENT, RARE = "the", "box", 4000


@dataclass(frozen=True)
class Game:
    """A played trajectory: its outcome, and its turns as JSON with two placeholders."""

    end: dict[str, Any]
    turns: list[tuple[float, bool, str]]
    true_claims: int = 0
    false_claims: int = 0
    worst_mark: int = 0


KINDS = ("box_position", "direction", "own_position", "target_position", "wall")
"""Kinds of the false claims, in order; each game has as many of them as it has false claims."""


def fill(
    team: Team, author: User, *, runs: int = 200, trajectories: int = 25_000, turns: int = 128_000, largest: int = 0
) -> list[Run]:
    """Insert `runs` runs with `trajectories` trajectories in total; the first has `largest` of them, or an equal share.

    A few trajectories are played; the others repeat these games with different words. The number of turns is met within
    a few per cent. The first run is in the middle of its training, the others have finished.
    """
    from django.db import connection

    draw = random.Random(7)
    games = played_games(turns / trajectories)
    rest = (trajectories - largest) // max(1, runs - 1) if largest else trajectories // runs
    shares = [trajectories - rest * (runs - 1)] + [rest] * (runs - 1)
    words = Words(draw)
    filled = []
    for number, share in enumerate(shares):
        filled.append(_run(team, author, number, share, games, words, draw))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")  # autovacuum does this within minutes
    return filled


def played_games(mean_turns: float) -> list[Game]:
    """Play a few hundred games of varying skill with about `mean_turns` turns each."""
    from tests.webapp import recorded_journal
    from trainer.config.run import RunConfig
    from trainer.journal import events

    config = RunConfig(iterations=10)
    config.rollout.groups, config.rollout.group_size = GROUPS, SIZE
    config.rollout.max_turns, config.rollout.max_actions = 8, 16
    turns: dict[str, list[tuple[float, bool, str]]] = {}
    games = []
    for number, skill in enumerate((0.3, 0.5, 0.7), start=1):
        for event in recorded_journal.iteration(config, number, skill):
            if isinstance(event, events.Turn):
                record = event.model_dump(exclude_none=True) | {"thought": THOUGHT, "trajectory": TRAJECTORY}
                record["response"] = f"<think>{THOUGHT}</think><answer>{event.answer}</answer>"
                text = json.dumps(record | {"seq": 1, "time": 1_760_000_000.0}, ensure_ascii=False)
                turns.setdefault(event.trajectory, []).append((event.reward, event.format_valid, text))
            elif isinstance(event, events.TrajectoryFinished):
                facts = (len(games) % 4, len(games) % 3, len(games) % 5 - 1)  # claims, and marks from "not judged"
                games.append(Game(event.model_dump(), turns[event.trajectory], *facts))
    games.sort(key=lambda game: len(game.turns))
    while len(games) > TRAJECTORIES and sum(len(game.turns) for game in games) / len(games) < mean_turns:
        games.pop(0)
    while len(games) > TRAJECTORIES and sum(len(game.turns) for game in games) / len(games) > mean_turns:
        games.pop()
    return games


class Words:
    """Generator of thoughts with few common and many rare words, as in natural language."""

    def __init__(self, draw: random.Random) -> None:
        syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
        self.words = ["".join(draw.choices(syllables, k=draw.randint(2, 4))) for _ in range(RARE)]
        self.weights = [1 / (rank + 3) for rank in range(RARE)]
        self.draw = draw

    def thought(self) -> str:
        """Return about forty words, always including "the" and "box"."""
        chosen = self.draw.choices(self.words, self.weights, k=self.draw.randint(14, 50))
        return f"{START} {PRESENT} {' '.join(chosen)}. It is {self.draw.randint(1, 9)} steps to go, then I push."


def _run(
    team: Team, author: User, number: int, share: int, games: Sequence[Game], words: Words, draw: random.Random
) -> Run:
    from django.utils import timezone

    from trainer.config.run import RunConfig
    from webapp.runs.models import Alarm, Evaluation, MetricPoint, Run

    iterations = max(1, _iterations(share))
    config = RunConfig(iterations=iterations)
    config.rollout.groups, config.rollout.group_size = GROUPS, SIZE
    now = timezone.now() - timedelta(hours=number)
    first = number == 0
    run = Run.objects.create(
        team=team,
        author=author,
        title=f"Sokoban, StarPO-S, seed {number}",
        config=config.model_dump(mode="json"),
        environment="Sokoban",
        iterations=iterations + 10 * first,
        iteration=iterations,
        attempt=1,
        seq=share * 7,
        state=Run.State.RUNNING if first else Run.State.FINISHED,
        device="CPU, 2 threads",
        parameters=900_000,
        phase="rollout" if first else "update",
        phase_iteration=iterations,
        phase_done=TRAJECTORIES,
        phase_total=TRAJECTORIES,
        phase_unit="trajectories",
        started_at=now,
        ended_at=None if first else now + timedelta(hours=1),
    )
    curve = max(iterations, SHORTEST_CURVE)
    MetricPoint.objects.bulk_create(
        [
            MetricPoint(
                run=run,
                name=name,
                iteration=at,
                value=at / curve + draw.random() / 5,
                tokens=9000 * at,
                seconds=9.0 * at,
            )
            for name in METRICS
            for at in range(1, curve + 1)
        ],
        batch_size=2000,
    )
    Evaluation.objects.bulk_create(
        Evaluation(
            run=run,
            iteration=at,
            suite="Sokoban",
            prompts=PROMPTS,
            success=0.4,
            success_low=0.3,
            success_high=0.5,
            mean_reward=3.0,
            mean_turns=4.0,
            mean_actions=8.0,
            time=now,
        )
        for at in range(0, iterations + 1, EVALUATION_INTERVAL)
    )
    Alarm.objects.bulk_create(
        Alarm(run=run, seq=at, iteration=at, state=state, message="The spread inside groups fell.", time=now)
        for at, state in ((iterations // 2, "watch"), (iterations // 2 + 4, "healthy"))
    )
    _trajectories(run, share, games, words, draw)
    return run


def _iterations(share: int) -> int:
    """Return the number of iterations, with an evaluation every ten, that gives about `share` trajectories."""
    return round(share / (TRAJECTORIES + PROMPTS / EVALUATION_INTERVAL))


def _groups(share: int) -> Iterator[tuple[int, str, int, int]]:
    """Yield (iteration, split, group, members) until `share` trajectories are reached."""
    left, iteration = share, 0
    while left > 0:
        iteration += 1
        shape = [(iteration, "train", group, SIZE) for group in range(GROUPS)]
        if iteration % EVALUATION_INTERVAL == 0:
            shape += [(iteration, "eval", prompt, 1) for prompt in range(PROMPTS)]
        for at, split, group, members in shape:
            if left > 0:
                yield at, split, group, min(members, left)
                left -= members


def _trajectories(run: Run, share: int, games: Sequence[Game], words: Words, draw: random.Random) -> None:
    from webapp.trajectories.models import Group, Trajectory

    board = {"kind": "grid", "theme": "sokoban", "rows": ["######", "#@ $.#", "#    #", "######"]}
    groups: list[Group] = []
    sizes: list[int] = []
    for iteration, split, number, members in _groups(share):
        seed = number if split == "eval" else 1000 * iteration + number
        groups.append(
            Group(
                run=run,
                attempt=1,
                iteration=iteration,
                split=split,
                suite="Sokoban" if split == "eval" else "",
                number=number,
                environment="Sokoban",
                seed=seed,
                prompt="You solve puzzles by acting in them.",
                board=board,
                mean=0.5,
                std=draw.random(),
                kept=None if split == "eval" else draw.random() < 0.25,
            )
        )
        sizes.append(members)
    Group.objects.bulk_create(groups, batch_size=2000)
    chosen: list[Game] = []
    trajectories: list[Trajectory] = []
    for group, members in zip(groups, sizes, strict=True):
        for member in range(members):
            game = draw.choice(games)
            chosen.append(game)
            trajectories.append(_trajectory(run, group, member, game, len(trajectories) + 1))
    Trajectory.objects.bulk_create(trajectories, batch_size=2000)
    _copy_turns(trajectories, chosen, words)


def _trajectory(run: Run, group: Group, member: int, game: Game, seq: int) -> Trajectory:
    from webapp.trajectories.end_reasons import end_reason
    from webapp.trajectories.models import Trajectory

    end = game.end
    return Trajectory(
        run=run,
        group=group,
        attempt=1,
        key=f"{group.split}-{group.iteration}-{group.number}-{member}",
        member=member,
        iteration=group.iteration,
        split=group.split,
        status="success" if end["success"] else "failed",
        end=end["end"],
        total_reward=end["total_reward"],
        turn_count=len(game.turns),
        action_count=end["actions"],
        token_count=end["tokens"],
        format_error=any(not valid for _, valid, _ in game.turns),
        lost_at=end["lost_at"],
        lost_turn=end["lost_at"] and end["lost_at"]["turn"],
        end_reason=end_reason(end["end"], end["success"], end["lost_at"], end["error"]),
        true_claims=game.true_claims,
        false_claims=game.false_claims,
        false_claim_kinds=sorted(KINDS[(len(game.turns) + number) % len(KINDS)] for number in range(game.false_claims)),
        worst_mark=game.worst_mark,
        first_mistake_turn=0 if game.worst_mark > 1 else None,
        last_seq=seq,
        finished_seq=seq,
    )


def _copy_turns(trajectories: Sequence[Trajectory], games: Sequence[Game], words: Words) -> None:
    from django.db import connection

    statement = "COPY trajectories_turn (trajectory_id, number, seq, reward, format_valid, event) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for trajectory, game in zip(trajectories, games, strict=True):
            for number, (reward, valid, text) in enumerate(game.turns):
                event = text.replace(THOUGHT, words.thought()).replace(TRAJECTORY, trajectory.key)
                copy.write_row((trajectory.pk, number, trajectory.last_seq + number, reward, valid, event))
