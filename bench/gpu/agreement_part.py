"""Agreement of numbers: the pocket policy on a CPU and a GPU, and the sampler with the trainer."""

from __future__ import annotations

import copy
import os
from unittest.mock import patch

import torch
from torch import Tensor

from bench.gpu.models import build
from bench.gpu.options import Settings
from bench.gpu.record import Recorder
from bench.lib.recorded_dialogues import GROUP, Dialogue, even, ragged
from bench.lib.workers.our_worker import NEVER, OurWorker, batch
from bench.lib.workers.our_worker import settings as run_settings
from trainer.config.run import PolicyConfig, RunConfig
from trainer.config.update_variants import VARIANTS_VARIABLE
from trainer.diagnostics.compute import mismatch_metrics
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers.decode_steps import DecodeMode, default_mode
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.learner.learner import Learner
from trainer.paths import POCKET_CHECKPOINT
from trainer.policy.load import load
from trainer.rollout.trajectory import Batch, Trajectory, collate

ROWS, TURNS, VOCABULARY = 32, 3, 500
"""Dialogues of the pocket policy; its vocabulary is a little larger."""


def agreement(settings: Settings, recorder: Recorder) -> None:
    """Compare log-probabilities and an SGD step of the pocket policy here and on the CPU, with every attention."""
    dialogues = ragged(ROWS, 160, 48, VOCABULARY, TURNS)
    logprobs, step = _pocket("cpu", "float32", {}, dialogues)
    cases: dict[str, tuple[str, dict[str, object], str]] = {
        "float32, prefixes shared": ("float32", {}, ""),
        "float32, padded rows": ("float32", {}, "separate"),
        "float32, gradient checkpointing": ("float32", {"gradient_checkpointing": True}, ""),
        "bfloat16 with float32 masters": ("bfloat16", {}, ""),
    }
    if settings.device == "cuda":
        cases["float32, compiled layers"] = ("float32", {}, "compiled")
    for name, (dtype, optimizer, variants) in cases.items():
        with recorder.attempt(name), patch.dict(os.environ, {VARIANTS_VARIABLE: variants}):
            other, moved = _pocket(settings.device, dtype, optimizer, dialogues)
            difference = (other - logprobs).abs()
            recorder.add(
                name,
                **{
                    "log-probabilities: largest difference": float(difference.max()),
                    "mean difference": float(difference.mean()),
                    "step: relative difference": float((moved - step).norm() / step.norm()),
                },
            )


def _pocket(device: str, dtype: str, optimizer: dict[str, object], dialogues: list[Dialogue]) -> tuple[Tensor, Tensor]:
    """Return (tokens,) log-probabilities of the sampled tokens, and the change of all weights by one step of SGD."""
    base = run_settings(ROWS, dtype).model_dump(exclude_unset=True)
    base["optimizer"] |= {"name": "sgd", "policy_lr": 1.0, "max_grad_norm": 1e9} | optimizer
    config = RunConfig.model_validate(base)
    policy = load(POCKET_CHECKPOINT, PolicyConfig(device=device, dtype=dtype))
    learner = Learner(config, policy)
    recorded = batch(dialogues)
    scored = learner.score(recorded).logprobs
    recorded.sampler_logprobs = scored.clone()
    initial_weights = [weight.detach().clone() for weight in learner.trainable["policy"].weights.parameters]
    learner.update(recorded, 1)
    after = learner.trainable["policy"].weights.parameters
    moved = [(new.detach() - old).float().flatten().cpu() for new, old in zip(after, initial_weights, strict=True)]
    return scored[recorded.mask], torch.cat(moved)


def mismatch(settings: Settings, recorder: Recorder) -> None:
    """Compute k3 between the probabilities of sampler and trainer for the same tokens, by way of decoding."""
    model = build(settings)
    learner = OurWorker(model, run_settings(settings.workload.trajectories, settings.dtype)).learner
    modes: tuple[DecodeMode, ...] = ("ragged", "static")
    for mode in dict.fromkeys((default_mode(model.device), *modes)):
        with recorder.attempt(mode):
            played = _played(TransformersSampler(model, NEVER, 0, decoding=mode), settings)
            figures = mismatch_metrics(learner.score(played).logprobs, played.sampler_logprobs, played.mask)
            recorder.add(mode, **{name.removeprefix("mismatch/"): value for name, value in figures.items()})


def _played(sampler: TransformersSampler, settings: Settings) -> Batch:
    """Return a rollout of all turns as a batch."""
    work = settings.workload
    vocabulary = sampler.model.config.vocab_size
    dialogues = even(work.trajectories, 64, 16, vocabulary)
    session = sampler.session(range(len(dialogues)), SamplingParams(max_tokens=work.responses[1]))
    played = [Trajectory(id=str(row), group=row // GROUP, member=row % GROUP) for row in range(len(dialogues))]
    for turn in range(work.turns):
        prompts = {row: dialogue.rest if turn else dialogue.prompt for row, dialogue in enumerate(dialogues)}
        for row, sampled in session.generate(copy.copy(prompts)):
            played[row].append_prompt(prompts[row])
            played[row].append_response(sampled.ids, sampled.logprobs, sampled.entropies, turn)
    return collate(played, pad_id=0)
