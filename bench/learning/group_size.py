"""Which way an update pushes the bandit of the presets `bandit-starpo-trap`, by group size and share of the better arm.

    python -m bench.learning.group_size

Prints the tables of docs/echo-trap.md: the expected change of the logit of the better arm per trajectory, Σ A (a − p),
averaged over simulated batches of 128 trajectories, with the estimator that training uses.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.algorithms.advantages import grpo

TRAJECTORIES, BATCHES = 128, 4000
SURE, CHANCE = 0.15, 0.25
"""Reward of the arm that always pays; probability with which the better arm pays 1."""
KEPT = 0.25
SIZES = (4, 8, 16, 32)
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)


def push(share: float, size: int, *, divide: bool = True, keep: float = 1.0, seed: int = 0) -> float:
    """Return the mean of A (a − p) over the trajectories of the kept groups; above 0 it is towards the better arm.

    Args:
        share: p, the probability of pulling the better arm.
        size: trajectories in a group.
        divide: whether rewards are divided by the spread of their group.
        keep: share of the groups with the widest rewards that are kept, as StarPO-S does.
    """
    generator = torch.Generator().manual_seed(seed)
    groups = BATCHES * TRAJECTORIES // size
    better = torch.rand(groups, size, generator=generator) < share
    paid = torch.rand(groups, size, generator=generator) < CHANCE
    rewards = torch.where(better, paid.float(), SURE)
    number = torch.arange(groups).repeat_interleave(size)
    flat = rewards.reshape(-1, 1)
    advantages = grpo(flat, number, torch.ones_like(flat, dtype=torch.bool), divide).reshape(groups, size)
    pushes = (advantages * (better.float() - share)).mean(dim=1).reshape(BATCHES, -1)
    return float(pushes.gather(1, _widest(rewards.reshape(*pushes.shape, size), keep)).mean())


def _widest(rewards: Tensor, keep: float) -> Tensor:
    """Return the numbers of the groups with the largest standard deviation, for each batch."""
    return rewards.std(dim=2).topk(max(1, round(keep * rewards.shape[1])), dim=1).indices


def main() -> None:
    """Print both tables."""
    print("16 groups of 8: pulls of the better arm, StarPO, StarPO-S (a quarter kept), StarPO not divided")
    for share in (0.1, 0.5, 0.9):
        row = (push(share, 8), push(share, 8, keep=KEPT), push(share, 8, divide=False))
        print(f"{share:6.0%}", *(f"{value:+9.2f}" for value in row))
    print("StarPO, divided: pulls of the better arm,", ", ".join(f"{TRAJECTORIES // size} × {size}" for size in SIZES))
    for share in SHARES:
        print(f"{share:6.0%}", *(f"{push(share, size):+9.2f}" for size in SIZES))


if __name__ == "__main__":
    main()
