"""A journal as a run would write it: real environments, a solver with mistakes as player, no model.

Independent of the site; tests feed the journal to the ingest.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from pathlib import Path

import envs
from envs.base import Hint, TextEnv
from trainer.config.run import RunConfig
from trainer.journal import events, token_arrays
from trainer.journal.writer import Journal

_TOKEN = re.compile(r"</?\w+>|\s*\w+|\s*[^\w\s]|\s+")
PROMPT = "You solve puzzles by acting in them."


class Player:
    """Plays one trajectory; `skill` is the share of its actions that follow the solver."""

    def __init__(self, key: str, env: TextEnv, skill: float, draw: random.Random, config: RunConfig) -> None:
        self.key, self.env, self.skill, self.draw, self.config = key, env, skill, draw, config
        self.turns = self.actions = 0
        self.total = 0.0
        self.success = self.over = False
        self.lost: events.LostAt | None = None
        self.responses: list[str] = []

    def thought(self, hint: Hint | None) -> str:
        to_go = f" {hint.distance} to go." if hint and hint.distance else ""
        return f"I look at the board.{to_go} I move where the box needs me to stand, then I push it to the target."

    def play_turn(self) -> Iterator[events.Event]:
        """The next turn, and the end if it is the last."""
        board, first_hint = self.env.board(), self.env.hint()
        state = f"Turn {self.turns + 1}:\n{self.env.render()}"
        broken = self.draw.random() < 0.04
        records = [] if broken else list(self._actions())
        environment = sum(record.reward for record in records)
        terms = {"environment": environment} | ({"format": -0.1} if broken else {})
        answer = "" if broken else " || ".join(record.text for record in records)
        thought = self.thought(first_hint)
        response = f"<think>{thought}</think>" + ("" if broken else f"<answer>{answer}</answer>")
        self.responses.append(response)
        self.total += sum(terms.values())
        yield events.Turn(
            trajectory=self.key,
            turn=self.turns,
            state=state,
            response=response,
            thought=thought,
            answer=answer,
            format_valid=not broken,
            problem="there is no <answer>" if broken else None,
            actions=records,
            reward=sum(terms.values()),
            terms=terms,
            tokens=len(response) // 3,
            truncated=False,
            entropy=0.4 + self.draw.random() / 2,
            logprob=-0.5,
            board=board,
            hint=first_hint,
        )
        self.turns += 1
        out_of_actions = self.actions >= self.config.rollout.max_actions
        if not (self.over or out_of_actions or self.turns >= self.config.rollout.max_turns):
            return
        end = "terminated" if self.over else "actions" if out_of_actions else "turns"
        self.over = True
        yield events.TrajectoryFinished(
            trajectory=self.key,
            success=self.success,
            end=end,
            total_reward=self.total,
            turns=self.turns,
            actions=self.actions,
            tokens=self.turns * 40,
            lost_at=None if self.success else self.lost,
        )

    def tokens(self, advantage: float | None) -> events.TrajectoryTokens:
        """The responses split into words and signs as tokens, with plausible values."""
        turns = [[*map(len, _TOKEN.findall(response)), 0] for response in self.responses]
        count = sum(map(len, turns))
        draw = random.Random(self.key)
        chances = [draw.random() ** 0.3 for _ in range(count)]
        packed = token_arrays.arrays(
            [len(turn) for turn in turns],
            [draw.randrange(640) for _ in range(count)],
            [length for turn in turns for length in turn],
            [math.log(chance) for chance in chances],
            [-1.5 * chance * math.log(chance) for chance in chances],
            None if advantage is None else [advantage + draw.gauss(0, 0.4) for _ in range(count)],
            None if advantage is not None else "dropped",
        )
        return events.TrajectoryTokens(
            trajectory=self.key, tokens=count, unlearned=packed.unlearned, data=token_arrays.pack(packed)
        )

    def _actions(self) -> Iterator[events.ActionRecord]:
        names = self.env.env_spec.actions
        for number in range(self.draw.randint(1, self.config.rollout.max_actions_per_turn)):
            hint = self.env.hint()
            best = hint.actions if hint else []
            others = names or best or ["1 + 1"]  # where every text is an action
            name = self.draw.choice(best) if best and self.draw.random() < self.skill else self.draw.choice(others)
            if self.over or self.actions >= self.config.rollout.max_actions:
                yield events.ActionRecord(text=name, status="ignored", name=name)
                continue
            if self.draw.random() < 0.02:
                yield events.ActionRecord(text="Jump", status="illegal")
                continue
            _, reward, terminated, truncated, info = self.env.step(name)
            self.actions += 1
            self.over, self.success = terminated or truncated, info["success"]
            after = self.env.hint()
            if after and after.solvable == "no" and self.lost is None:
                self.lost = events.LostAt(turn=self.turns, action=number, reason=after.reason or "nothing can be won")
            yield events.ActionRecord(
                text=name,
                status="executed",
                name=name,
                reward=float(reward),
                effective=info["effective"],
                actual=info["actual"],
                board=self.env.board(),
                hint=after,
            )


def _players(config: RunConfig, iteration: int, group: int, size: int, skill: float) -> list[Player]:
    players = []
    for member in range(size):
        env = envs.make(config.environment.name, config.environment.settings)
        env.reset(seed=1000 * iteration + group, options={"dynamics_seed": 100 * group + member})
        draw = random.Random(f"{iteration} {group} {member}")
        players.append(Player(f"{iteration}-{group}-{member}", env, skill, draw, config))
    return players


def started(config: RunConfig, attempt: int = 1, from_iteration: int = 0) -> events.RunStarted:
    return events.RunStarted(
        attempt=attempt,
        from_iteration=from_iteration,
        iterations=config.iterations,
        title=config.title(),
        config=config.model_dump(),
        device="CPU, 2 threads",
        parameters=900_000,
        versions={},
    )


def iteration(config: RunConfig, number: int, skill: float, *, stop_after: int | None = None) -> Iterator[events.Event]:
    """One rollout with its scores and metrics; cut short after `stop_after` rounds of turns."""
    total = config.rollout.trajectories
    yield events.Phase(
        phase="rollout",
        iteration=number,
        done=0,
        total=total,
        unit="trajectories",
        tokens_per_second=5310.0,
        eta_seconds=9.0 * (config.iterations - number),
    )
    groups = [
        _players(config, number, group, config.rollout.group_size, skill) for group in range(config.rollout.groups)
    ]
    for group, players in enumerate(groups):
        yield events.GroupStarted(
            iteration=number,
            split="train",
            group=group,
            environment=config.environment.name,
            seed=1000 * number + group,
            prompt=PROMPT,
            board=players[0].env.board(),
            hint=players[0].env.hint(),
            members=[player.key for player in players],
        )
    everyone = [player for players in groups for player in players]
    for turn in range(config.rollout.max_turns):
        if turn == stop_after:
            return
        for player in everyone:
            if not player.over:
                yield from player.play_turn()
        done = sum(player.over for player in everyone)
        yield events.Phase(
            phase="rollout",
            iteration=number,
            done=done,
            total=total,
            unit="trajectories",
            tokens_per_second=5310.0,
            eta_seconds=9.0 * (config.iterations - number),
        )
    yield from _scored(groups, number)


def _scored(groups: list[list[Player]], number: int) -> Iterator[events.Event]:
    scores = []
    for group, players in enumerate(groups):
        mean = sum(player.total for player in players) / len(players)
        std = (sum((player.total - mean) ** 2 for player in players) / len(players)) ** 0.5
        scores.append(events.GroupScore(group=group, mean=mean, std=std, kept=False))
    for score in sorted(scores, key=lambda score: -score.std)[: (len(scores) + 1) // 2]:
        score.kept = True
    yield events.GroupsScored(iteration=number, groups=scores)
    for score, players in zip(scores, groups, strict=True):
        for player in players:
            yield player.tokens((player.total - score.mean) / (score.std + 1e-3) if score.kept else None)
    kept = [players for score, players in zip(scores, groups, strict=True) if score.kept]
    dropped = [player.key for players in groups if players not in kept for player in players]
    yield events.AttemptsUsed(iteration=number, trained=sum(map(len, kept)), unused={"filtered": dropped})
    everyone = [player for players in groups for player in players]
    wave = random.Random(number).random()
    yield events.Metrics(
        iteration=number,
        tokens=number * 9000,
        seconds=number * 9.0,
        values={
            "reward/mean": sum(player.total for player in everyone) / len(everyone),
            "reward/in_group_std": sum(score.std for score in scores) / len(scores),
            "success/rate": sum(player.success for player in everyone) / len(everyone),
            "entropy/mean": 0.95 - 0.008 * number + 0.04 * wave,
            "policy/grad_norm": 0.3 + 0.3 * wave,
            "format/valid_rate": 0.95 + 0.02 * wave,
            "length/response": 44.0 - wave,
            "policy/kl_to_initial": 0.002 * number,
            "throughput/tokens_per_second": 5000 + 400 * wave,
            "time/rollout": 6 + wave,
            "time/update": 2 + wave,
        },
    )


def evaluated(number: int, success: float, *, final: bool = False) -> events.Evaluation:
    return events.Evaluation(
        iteration=number,
        suite="Sokoban",
        prompts=256,
        success=success,
        success_low=success - 0.06,
        success_high=success + 0.06,
        mean_reward=10 * success - 1,
        mean_turns=3.2,
        mean_actions=7.1,
        final=final,
    )


def write(folder: Path, config: RunConfig, finished: int, *, playing_rounds: int | None = None) -> Path:
    """The journal of a run with `finished` iterations, optionally with a partial one after them. Returns its folder."""
    log = Journal(folder)
    log.write(started(config))
    log.write(evaluated(0, 0.35))
    for number in range(1, finished + 1):
        log.write(*iteration(config, number, skill=0.4 + 0.45 * number / max(1, config.iterations)))
        if number % 5 == 0:
            log.write(evaluated(number, 0.35 + 0.3 * number / config.iterations))
    if playing_rounds is not None:
        log.write(*iteration(config, finished + 1, skill=0.7, stop_after=playing_rounds))
    log.close()
    return folder
