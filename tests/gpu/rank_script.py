"""A rank of the tests with several processes on one GPU: one update, whose step rank 0 saves.

`torchrun -m tests.gpu.rank_script BACKEND SHARDING FILE`, with the backend gloo or nccl and the sharding none or full.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from tests.gpu.conftest import pocket
from tests.gpu.dialogues import SGD, config, recorded, step_of
from trainer.distributed.collectives import RankGroup


def main(backend: str, sharding: str, out: Path) -> None:
    torch.cuda.set_device(0)
    dist.init_process_group(backend)
    cpu = dist.group.WORLD if backend == "gloo" else dist.new_group(backend="gloo")
    group = RankGroup(dist.get_rank(), dist.get_world_size(), cpu)
    group.sharded = sharding == "full"
    run = config(optimizer=SGD, parallel={"sharding": sharding})
    logprobs, step = step_of(pocket("cuda"), run, recorded(), group)
    if group.rank == 0:
        torch.save({"logprobs": logprobs, "step": step}, out)
    dist.barrier(group=cpu)
    group.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
