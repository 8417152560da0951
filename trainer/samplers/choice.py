"""Which sampler a run's settings ask for. The samplers themselves are in the modules beside this one."""

from __future__ import annotations

from pathlib import Path

from trainer.config import RunConfig
from trainer.policies import Policy
from trainer.samplers.base import Sampler
from trainer.samplers.transformers import TransformersSampler


def make_sampler(config: RunConfig, policy: Policy, eos_id: int, folder: Path | None = None) -> Sampler:
    """The engine of `engine.name`, started and holding the policy's weights from its first session on.

    Args:
        config: the run's settings.
        policy: what plays.
        eos_id: the token that ends a response.
        folder: the run's folder, through which weights go to servers.
    Raises:
        ModelError: the engine is not installed, does not start, or cannot take this model or these settings.
    """
    if config.engine.name == "vllm":
        from trainer.samplers.vllm import VllmSampler

        return VllmSampler(config, policy, eos_id)
    if config.engine.name == "server":
        from trainer.samplers.server import ServerSampler

        return ServerSampler(config, policy, eos_id, folder)
    return TransformersSampler(policy.model, eos_id, policy.pad_id)
