"""Test script of each rank: updates on a recorded batch, with the process group of torchrun.

`python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.trainer.rank_script FOLDER`: the folder holds
the cases and receives their results.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import torch

from trainer.config.run import RunConfig
from trainer.distributed import torchrun
from trainer.distributed.group import LearnerSpec, ProcessGroup
from trainer.learner.learner import Learner
from trainer.loops import worker_rank
from trainer.policy.load import load

UPDATES = 5


def learn(
    config: RunConfig, batch: Any, team: ProcessGroup | None, state: Any = None, first: int = 1
) -> dict[str, Any]:
    """Results of five updates."""
    torch.set_num_threads(1)
    policy = load(config.policy.model, config.policy)
    learner = Learner(config, policy, load(config.policy.model, config.policy), team)
    if state is not None:
        policy.model.load_state_dict(state["policy"])
        learner.load_state(copy.deepcopy(state["learner"]))  # an optimiser updates the tensors it is given in place
    values = [learner.update(batch, iteration) for iteration in range(first, first + UPDATES)]
    scores = learner.score(batch).logprobs
    return {
        "policy": {name: value.clone() for name, value in policy.model.state_dict().items()},
        "learner": learner.state(),
        "values": values,
        "scores": scores,
        "thoughts": learner.cross_scores([[11, 12], [13, 14, 15], [16]], [[41], [42, 43], [44]]),
    }


def main(folder: Path) -> None:
    """Every case in turn. The main process writes `<case>.after`."""
    cases = torch.load(folder / "cases.pt", weights_only=False)
    first = next(iter(cases.values()))[0]
    team = torchrun.join_group(first)
    assert isinstance(team, torchrun.TorchrunGroup)
    if team.rank:
        worker_rank.ignore_signals()
        worker_rank.run_worker(team)
        return
    for name, (config, batch) in cases.items():
        source = config.policy.model
        team.prepare(LearnerSpec(config=config, source=source, reference=source, folder=folder, saved=None))
        torch.save(learn(config, batch, team), folder / f"{name}.after")
    team.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
