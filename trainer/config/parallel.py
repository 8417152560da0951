"""The section of RunConfig about several processes that work on one run. How many there are is torchrun's to say."""

from __future__ import annotations

from typing import Literal

from trainer.config.base import Section, setting


class ParallelConfig(Section):
    """Several processes for one run, as `python -m torch.distributed.run` starts them; one needs none of this."""

    sharding: Literal["none", "full"] = setting(
        "none",
        "none: every process holds all weights, and only gradients travel; full: weights, gradients and moments are "
        "split among the processes (FSDP2), for models that do not fit otherwise.",
    )
    timeout: float = setting(
        1800.0, "How long processes wait for each other in the midst of an update.", unit="seconds", gt=0, le=86_400
    )
