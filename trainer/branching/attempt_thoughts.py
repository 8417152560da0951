"""The influence of an attempt's thoughts on its next actions, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from envs import registry
from trainer.branching import sample_statistics
from trainer.branching.asking import played
from trainer.branching.changed_response import ChangeError
from trainer.branching.false_claims import FalseThought, make_claims_false
from trainer.branching.player import BranchPlayer, Play
from trainer.branching.starting_points import StartingPoints, branch_name
from trainer.engines.sampler import SampledResponse
from trainer.journal.branches import Change, Thought, TurnInfluence
from trainer.journal.events import Turn
from trainer.seeds import Purpose, derive, number_of


def turn_influences(
    points: StartingPoints,
    others: Sequence[Turn],
    samples: int,
    temperature: float,
    player: BranchPlayer,
    play: Play,
) -> Iterator[TurnInfluence]:
    """Yield the influence of the thought at every turn that has an answer behind it.

    Args:
        others: turns of other attempts, from which another thought is taken.
        samples: next actions after each thought.
        play: interrupts the rollouts after one turn.
    """
    attempt = points.attempt
    for turn in filter(points.has_answer, range(len(attempt.turns))):
        beginnings, texts, claims = _beginnings(points, turn, others)
        plans = [
            replace(
                points.plan(replace(points.position(turn), beginning=beginning), samples, group=group),
                members=tuple(f"{branch_name(attempt.trajectory, turn, n)}-{thought}" for n in range(samples)),
            )
            for group, (thought, beginning) in enumerate(beginnings.items())
        ]
        trajectories = played(player, points, plans, temperature, play)
        chosen: dict[Thought, list[str]] = {
            thought: [actions_of(t.turns[turn]) for t in trajectories if t.group == group and len(t.turns) > turn]
            for group, thought in enumerate(beginnings)
        }
        yield sample_statistics.influence_of(turn, chosen, texts, claims)


def _beginnings(
    points: StartingPoints, turn: int, others: Sequence[Turn]
) -> tuple[dict[Thought, SampledResponse], dict[Thought, str], tuple[int, int]]:
    """Return the beginnings of the response with each thought, the texts of those thoughts, and the claims."""
    recorded = points.attempt.turns[turn]
    beginnings: dict[Thought, SampledResponse] = {"own": points.own_beginning(turn)}
    texts: dict[Thought, str] = {"none": ""}
    if other := other_thought(recorded, others, points.attempt.config.seed):
        texts["other"] = other
    false = _false_thought(points, recorded)
    if false is not None and false.text != recorded.thought:
        texts["false"] = false.text
    for thought, text in list(texts.items()):
        if (beginning := beginning_with(points, turn, text)) is None:
            del texts[thought]
        else:
            beginnings[thought] = beginning
    return beginnings, texts, (false.claims, false.kept) if false else (0, 0)


def beginning_with(points: StartingPoints, turn: int, thought: str) -> SampledResponse | None:
    """Return the beginning of a response with another thought; None if it cannot be written or is too long."""
    if not points.bound.think:
        raise ChangeError("this policy writes no thoughts (rollout.think): there is nothing to compare")
    try:
        beginning = points.position(turn, Change(thought=thought)).beginning
    except ChangeError:
        return None
    too_long = beginning is not None and len(beginning.ids) > points.config.rollout.max_response_tokens
    return None if too_long and points.bound.knows_prompt_tokens else beginning


def _false_thought(points: StartingPoints, recorded: Turn) -> FalseThought | None:
    name, board = points.config.environment.name, recorded.board
    return make_claims_false(recorded.thought, lambda thought: registry.read_claims(name, thought, board))


def other_thought(recorded: Turn, others: Sequence[Turn], seed: int) -> str | None:
    """Return the thought of another attempt in another state, the same one for the same run; None without any."""
    candidates = [
        turn for turn in others if turn.thought and turn.thought != recorded.thought and turn.board != recorded.board
    ]
    if not candidates:
        return None
    number = derive(seed, Purpose.BRANCH, number_of(recorded.trajectory), recorded.turn)
    return candidates[number % len(candidates)].thought


def actions_of(turn: Turn) -> str:
    """Return the actions of a turn as text: names, or the policy's words if there are none."""
    return " || ".join(action.name or action.text for action in turn.actions)
