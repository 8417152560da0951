"""Registry of generation engines: `engine.name` → sampler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from trainer.config.run import RunConfig
from trainer.engines.sampler import Sampler
from trainer.engines.transformers.chunks import ChunkedSampler
from trainer.engines.transformers.decode_steps import DecodeMode
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.policy.load import ModelError, Policy

Loader = Callable[[RunConfig, Policy, int, Path | None], Sampler]
"""Creates a sampler from the run's settings, the policy, the id of the end token, and the run's folder."""


def _transformers(config: RunConfig, policy: Policy, eos_id: int, folder: Path | None) -> Sampler:
    decoding: DecodeMode | None = "ragged" if config.engine.eager else None
    return TransformersSampler(policy.model, eos_id, policy.pad_id, decoding=decoding)


def _vllm(config: RunConfig, policy: Policy, eos_id: int, folder: Path | None) -> Sampler:
    from trainer.engines.vllm.vllm_sampler import VllmSampler

    return VllmSampler(config, policy, eos_id)


def _server(config: RunConfig, policy: Policy, eos_id: int, folder: Path | None) -> Sampler:
    from trainer.engines.vllm.server_sampler import ServerSampler

    return ServerSampler(config, policy, eos_id, folder)


ENGINES: dict[str, Loader] = {
    "transformers": _transformers,
    "vllm": _vllm,
    "server": _server,
}
"""Loaders by `engine.name`; `EngineConfig.name` lists the same names. A loader imports its engine when called."""


@runtime_checkable
class StopsAtTokens(Protocol):
    """A sampler that can end responses at one of several tokens."""

    end_ids: frozenset[int]


def make_sampler(
    config: RunConfig,
    policy: Policy,
    eos_id: int,
    folder: Path | None = None,
    end_ids: frozenset[int] = frozenset(),
) -> Sampler:
    """Start the engine named by `engine.name`; its sessions use the policy's weights.

    Args:
        config: the run's settings.
        policy: the model that samples.
        eos_id: the token that ends a response.
        folder: the run's folder, through which servers receive weights.
        end_ids: further tokens that end a response, if a template ends calls with another token; engines of other
            packages that support only one token continue there.
    Raises:
        ModelError: the engine is not installed, does not start, or does not support this model, these settings or
            several processes.
    """
    if config.engine.foreign and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        raise ModelError(
            f"engine.name is {config.engine.name!r}, which takes its weights from one process, but several work on "
            "this run: start it with one, or choose engine.name=transformers"
        )
    sampler = ENGINES[config.engine.name](config, policy, eos_id, folder)
    if isinstance(sampler, StopsAtTokens):
        sampler.end_ids |= end_ids
    return sampler


def in_chunks(sampler: Sampler, rows: int | None, notify: Callable[[str], None]) -> Sampler:
    """Limit the sampler to `rows` concurrent rows if it runs in this process; other engines limit themselves.

    Args:
        rows: maximum number of concurrent rows; None: all.
        notify: receives a message when the limit is lowered.
    """
    return ChunkedSampler(sampler, rows, notify) if isinstance(sampler, TransformersSampler) else sampler
