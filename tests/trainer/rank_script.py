"""Script of the tests with several ranks, run by each of them: updates on recorded batches in one process group.

`python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.trainer.rank_script FOLDER`: the folder holds
the cases and receives their results.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.trainer.threads import THREADS
from trainer.config.run import RunConfig
from trainer.distributed.collectives import RankGroup
from trainer.distributed.group import ProcessGroup
from trainer.learner.learner import Learner
from trainer.policy.load import load

UPDATES = 5


def learn(
    config: RunConfig, batch: Any, group: ProcessGroup | None, state: Any = None, first: int = 1
) -> dict[str, Any]:
    """Five updates. Returns the learner's state, metrics and scores after them."""
    torch.set_num_threads(THREADS)
    policy = load(config.policy.model, config.policy)
    learner = Learner(config, policy, load(config.policy.model, config.policy), group)
    if state is not None:
        policy.model.load_state_dict(state["policy"])
        learner.load_state(copy.deepcopy(state["learner"]))  # the optimiser updates loaded tensors in place
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
    """Compute every case in turn. Rank 0 writes `<case>.after`."""
    dist.init_process_group("gloo")
    group = RankGroup(dist.get_rank(), dist.get_world_size(), dist.group.WORLD)
    for name, (config, batch) in torch.load(folder / "cases.pt", weights_only=False).items():
        group.sharded = config.parallel.sharding == "full"
        learned = learn(config, batch, group)
        if group.rank == 0:
            torch.save(learned, folder / f"{name}.after")
    group.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
