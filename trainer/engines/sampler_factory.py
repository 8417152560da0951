"""Which sampler a run's settings ask for. The samplers themselves are in the modules beside this one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from trainer.config.run import RunConfig
from trainer.engines.base import Sampler
from trainer.engines.transformers.chunks import ChunkedSampler
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.policy.load import ModelError, Policy


def make_sampler(config: RunConfig, policy: Policy, eos_id: int, folder: Path | None = None) -> Sampler:
    """The engine of `engine.name`, started and holding the policy's weights from its first session on.

    Args:
        config: the run's settings.
        policy: what plays.
        eos_id: the token that ends a response.
        folder: the run's folder, through which weights go to servers.
    Raises:
        ModelError: the engine is not installed, does not start, or cannot take this model, these settings or several
            processes.
    """
    if config.engine.foreign and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        raise ModelError(
            f"engine.name is {config.engine.name!r}, which takes its weights from one process, but several work on "
            "this run: start it with one, or choose engine.name=transformers"
        )
    if config.engine.name == "vllm":
        from trainer.engines.vllm.vllm_sampler import VllmSampler

        return VllmSampler(config, policy, eos_id)
    if config.engine.name == "server":
        from trainer.engines.vllm.remote import ServerSampler

        return ServerSampler(config, policy, eos_id, folder)
    return TransformersSampler(policy.model, eos_id, policy.pad_id)


def in_chunks(sampler: Sampler, rows: int | None, tell: Callable[[str], None]) -> Sampler:
    """The sampler, with no more rows at once than fit, where it plays in this process; others see to it themselves."""
    return ChunkedSampler(sampler, rows, tell) if isinstance(sampler, TransformersSampler) else sampler
