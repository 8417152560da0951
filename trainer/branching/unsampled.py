"""Log-probabilities and entropies of tokens that a policy did not sample: edited text, and text without its ids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from trainer.branching.starting_points import StartingPoints
from trainer.engines.sampler import SampledResponse
from trainer.policy.forward import PolicyForward
from trainer.policy.load import Policy
from trainer.rollout.positions import Position
from trainer.rollout.rebuilding import rebuild_dialogue
from trainer.rollout.trajectory import TokenSequence, Trajectory

Scores = dict[int, tuple[list[float], list[float]]]
"""Turn → log-probabilities and entropies of its response, nats."""


def with_scores(position: Position, points: StartingPoints, policy: Policy, temperature: float) -> Position:
    """Return the position with the policy's values where they are NaN; recorded values are kept."""
    beginning = [] if position.beginning is None else [position.beginning]
    responses = [*position.responses, *beginning]
    if not any(map(_is_unknown, responses)):
        return position
    scores = score(policy, dialogue(points, position, responses).sequences(), temperature)
    filled = [
        replace(response, logprobs=scores[turn][0], entropies=scores[turn][1]) if _is_unknown(response) else response
        for turn, response in enumerate(responses)
    ]
    if not beginning:
        return replace(position, responses=filled)
    return replace(position, responses=filled[:-1], beginning=filled[-1])


def dialogue(points: StartingPoints, position: Position, responses: Sequence[SampledResponse]) -> Trajectory:
    """Return the tokens of these responses from the first turn on, each after its prompt."""
    attempt, number = points.attempt, len(position.turns)
    read = position.state if position.changed_state is None else position.changed_state
    last = attempt.turns[number].model_copy(update={"state": read})
    rebuilt = Trajectory(attempt.trajectory, attempt.group.group, 0, turns=[*position.turns, last][: len(responses)])
    sampled = [(response.ids, response.logprobs) for response in responses]
    rebuild_dialogue(rebuilt, sampled, attempt.group.prompt, points.bound, points.config.rollout.context_turns)
    return rebuilt


@torch.no_grad()
def score(policy: Policy, sequences: Sequence[TokenSequence], temperature: float) -> Scores:
    """Return the values of all sampled tokens; greedy tokens have their values at temperature 1."""
    network, device = PolicyForward(policy.model), policy.model.device
    scores: Scores = {}
    for sequence in sequences:
        ids = torch.tensor([sequence.ids], device=device)
        mask = torch.tensor([sequence.sampled], device=device)
        values = [part.float().tolist() for part in network(ids, mask, temperature or 1.0)]
        turns = [turn for turn in sequence.turn_of if turn >= 0]
        for turn, logprob, entropy in zip(turns, *values, strict=True):
            kept = scores.setdefault(turn, ([], []))
            kept[0].append(logprob)
            kept[1].append(entropy)
    return scores


def _is_unknown(response: SampledResponse) -> bool:
    return any(map(math.isnan, response.logprobs))
