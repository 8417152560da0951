"""What tests of several processes run in each of them: updates on a recorded batch, with the team that torchrun gives.

`python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.trainer.rank_script FOLDER`: the folder holds
the cases and gets their results.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import torch

from tests.trainer.threads import THREADS
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
    """Five updates; what came of them."""
    torch.set_num_threads(THREADS)
    policy = load(config.policy.model, config.policy)
    learner = Learner(config, policy, load(config.policy.model, config.policy), team)
    if state is not None:
        policy.model.load_state_dict(state["policy"])
        learner.load_state(copy.deepcopy(state["learner"]))  # an optimiser goes on in the tensors it is given
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
