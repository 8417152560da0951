"""Seconds and bytes from the end of an update to the first token that is sampled with the new weights.

    python -m bench.scale.first_token                   # the pocket policy, and the shape of Qwen2.5-0.5B
    python -m bench.scale.first_token --engines vllm    # where vLLM is installed

Engines: transformers in the process that learns; a rollout actor, which reads the weights from Ray's object store;
vLLM. Those whose library is missing are left out. Weights are random; the prompt has 64 tokens.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.gpu.models import save_checkpoint
from bench.gpu.options import Settings
from bench.lib.random_models import SHAPES
from trainer.config.run import PolicyConfig, RunConfig
from trainer.engines.sampler import Sampler, SamplingParams
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.policy.load import Policy, load
from trainer.policy.weights import VersionedWeights
from trainer.studies import machine

ROUNDS = 5
PROMPT = [10 + number % 50 for number in range(64)]
NEEDS = {"transformers": "transformers", "actor": "ray", "vllm": "vllm"}
"""Engines and the package that each needs."""
_STEP = 1e-4


@dataclass(frozen=True)
class FirstToken:
    """Medians of a few updates.

    Attributes:
        engine, shape: what sampled.
        size: bytes of the weights that were passed on; 0 in one process.
        weights: seconds until the engine has the weights.
        token: seconds until the first token, weights included.
    """

    engine: str
    shape: str
    size: int
    weights: float
    token: float


def first_token(sampler: Sampler) -> None:
    """Read the prompt and sample one token, in a session of its own."""
    session = sampler.session([0], SamplingParams(max_tokens=1))
    ((_, response),) = session.generate({0: PROMPT})
    if len(response.ids) != 1:
        raise RuntimeError(f"the engine sampled {len(response.ids)} tokens instead of one")


class RolloutActor:
    """A copy of the policy that samples in a process of its own."""

    def __init__(self, folder: str) -> None:
        self._policy = load(folder, PolicyConfig(device="cpu"))
        self._sampler = sampler_of(self._policy)

    def load(self, packed: Any) -> float:
        """Overwrite the weights. Returns the first one, as a check."""
        packed.unpack().load_into(self._policy.model)
        self._sampler.weights_updated()
        return first_weight(self._policy)

    def sample(self) -> None:
        """Sample one token."""
        first_token(self._sampler)


def sampler_of(policy: Policy) -> TransformersSampler:
    """The default engine."""
    return TransformersSampler(policy.model, policy.tokenizer.eos_token_id, policy.pad_id)


def first_weight(policy: Policy) -> float:
    """By which copies of the policy are compared."""
    return next(policy.model.parameters()).flatten()[0].item()


@torch.no_grad()
def change(policy: Policy) -> None:
    """Stands for an update: changes all weights a little."""
    for parameter in policy.model.parameters():
        parameter.add_(_STEP)


Push = Callable[[int], int]
"""Brings the weights of a version to the engine. Returns the bytes that were passed on."""


@contextmanager
def in_process(policy: Policy, folder: Path) -> Iterator[tuple[Push, Callable[[], None]]]:
    """The sampler reads the learner's own weights."""
    sampler = sampler_of(policy)

    def push(_: int) -> int:
        sampler.weights_updated()
        return 0

    yield push, lambda: first_token(sampler)


@contextmanager
def in_actor(policy: Policy, folder: Path) -> Iterator[tuple[Push, Callable[[], None]]]:
    """An actor reads the weights from the object store."""
    import ray

    from trainer.cluster.local_cluster import object_store_bytes, start_local_cluster
    from trainer.cluster.transfer import PackedWeights

    session = start_local_cluster(1, object_store_bytes(VersionedWeights.of(policy.model, 0).size))
    actor: Any = ray.remote(RolloutActor).remote(str(folder))

    def push(version: int) -> int:
        weights = VersionedWeights.of(policy.model, version)
        if ray.get(actor.load.remote(ray.put(PackedWeights.of(weights)))) != first_weight(policy):
            raise RuntimeError("the actor has other weights")
        return weights.size

    try:
        yield push, lambda: ray.get(actor.sample.remote())
    finally:
        ray.shutdown()
        shutil.rmtree(session, ignore_errors=True)


@contextmanager
def in_vllm(policy: Policy, folder: Path) -> Iterator[tuple[Push, Callable[[], None]]]:
    """An engine of this process, into which the weights are loaded."""
    from trainer.engines.vllm.vllm_sampler import VllmSampler

    settings = {"policy": {"model": str(folder), "device": "cpu"}, "engine": {"name": "vllm"}}
    sampler = VllmSampler(RunConfig.model_validate(settings), policy, policy.tokenizer.eos_token_id)

    def push(version: int) -> int:
        sampler.weights_updated()
        sampler.wake_up()
        return sum(value.numel() * value.element_size() for value in policy.model.parameters())

    try:
        yield push, lambda: first_token(sampler)
    finally:
        sampler.close()


ENGINES = {"transformers": in_process, "actor": in_actor, "vllm": in_vllm}


def settings_for(shape: str) -> Settings:
    """By which the GPU benchmark makes a checkpoint of this shape in float32 on the CPU."""
    return Settings("cpu", shape, "float32", parts=(), variants=(), rounds=1, seconds=0.0, peak=None, rows=Path())


def measure(engine: str, shape: str, rounds: int = ROUNDS) -> FirstToken:
    """Change the weights and sample, a few times."""
    with TemporaryDirectory(prefix="echoscope-first-token-") as name:
        folder = save_checkpoint(settings_for(shape), Path(name) / "model")
        policy = load(folder, PolicyConfig(device="cpu"))
        seconds: list[tuple[float, float]] = []
        size = 0
        with ENGINES[engine](policy, folder) as (push, sample):
            for version in range(rounds + 1):
                change(policy)
                began = time.perf_counter()
                size = push(version)
                pushed = time.perf_counter()
                sample()
                if version:  # the first round reserves memory
                    seconds.append((pushed - began, time.perf_counter() - began))
    weights, token = (statistics.median(column) for column in zip(*seconds, strict=True))
    return FirstToken(engine, shape, size, weights, token)


def table(results: list[FirstToken]) -> str:
    """As Markdown."""
    lines = ["| engine | policy | passed on | weights | first token |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {row.engine} | {row.shape} | {row.size / 10**6:,.0f} MB | {1000 * row.weights:,.1f} ms | "
        f"{1000 * row.token:,.1f} ms |"
        for row in results
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure the engines whose libraries are installed."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale.first_token", description=__doc__)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["pocket", "qwen2.5-0.5b"])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    print(machine.describe(), flush=True)
    results = []
    for engine in arguments.engines:
        if importlib.util.find_spec(NEEDS[engine]) is None:
            print(f"{engine} left out: {NEEDS[engine]} is not installed", file=sys.stderr)
            continue
        results += [measure(engine, shape, arguments.rounds) for shape in arguments.shapes]
    print(f"\n{table(results)}")


if __name__ == "__main__":
    main()
