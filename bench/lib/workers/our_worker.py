"""Our side of the comparisons: an update on recorded dialogues, and a rollout followed by an update.

`python -m bench.lib.workers.our_worker JOB` waits for commands (worker_protocol.py).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import PreTrainedModel

from bench.lib.random_models import build
from bench.lib.recorded_dialogues import GROUP, Dialogue, load, save
from bench.lib.resource_meter import Clock, Peak
from bench.lib.worker_protocol import WorkerConnection
from trainer.config.run import RunConfig
from trainer.config.update_variants import VARIANTS_VARIABLE
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.journal.events import Turn
from trainer.learner.learner import Learner
from trainer.policy.load import Policy
from trainer.rollout.trajectory import Batch, Trajectory, collate

NEVER = -1
"""End token that no model samples, so that every response has its full length."""


def settings(rows: int, dtype: str = "float32", *, checkpointing: bool = False, micro: int = 16_384) -> RunConfig:
    """Configure GRPO with an entropy bonus and one step on all rows, at a tiny learning rate: all steps are equal."""
    return RunConfig.model_validate(
        {
            "policy": {"dtype": dtype},
            "rollout": {"groups": max(1, rows // GROUP), "group_size": GROUP},
            "algorithm": {"estimator": "grpo", "aggregation": "token-mean", "entropy_coef": 0.001},
            "optimizer": {
                "policy_lr": 1e-6,
                "mini_batch_trajectories": rows,
                "micro_batch_tokens": micro,
                "gradient_checkpointing": checkpointing,
            },
        }
    )


def batch(dialogues: Sequence[Dialogue]) -> Batch:
    """Return the dialogues as a batch of the learner."""
    return collate([_trajectory(row, dialogue) for row, dialogue in enumerate(dialogues)], pad_id=0)


def _trajectory(row: int, dialogue: Dialogue) -> Trajectory:
    played = Trajectory(id=str(row), group=row // GROUP, member=row % GROUP)
    played.append_prompt(dialogue.prompt)
    logprobs = dialogue.logprobs or [0.0] * len(dialogue.rest)
    turn, column = -1, 0
    while column < len(dialogue.rest):
        end = column
        while end < len(dialogue.rest) and dialogue.sampled[end] == dialogue.sampled[column]:
            end += 1
        stretch = dialogue.rest[column:end]
        if dialogue.sampled[column]:
            turn += 1
            played.append_response(stretch, logprobs[column:end], [0.0] * len(stretch), turn)
        else:
            played.append_prompt(stretch)
        column = end
    played.turns += [_paid(row, number, dialogue.reward * (number == turn)) for number in range(turn + 1)]
    return played


def _paid(row: int, turn: int, reward: float) -> Turn:
    return Turn(
        trajectory=str(row),
        turn=turn,
        state="",
        response="",
        thought="",
        answer="",
        format_valid=True,
        actions=[],
        reward=reward,
        terms={},
        tokens=0,
        truncated=False,
        entropy=0.0,
        logprob=0.0,
    )


class OurWorker:
    """Our learner and sampler on one model."""

    def __init__(self, model: PreTrainedModel, config: RunConfig) -> None:
        self.model, self.config = model, config
        self.learner = Learner(config, Policy(model, SimpleNamespace(pad_token_id=0, eos_token_id=1)))
        self.iteration = 0

    def update(self, update_batch: Batch) -> dict[str, float]:
        """Take one optimiser step. Returns its metrics."""
        self.iteration += 1
        return self.learner.update(update_batch, self.iteration)

    def record(self, dialogues: Sequence[Dialogue]) -> list[Dialogue]:
        """Return the dialogues with the policy's log-probabilities."""
        scored = self.learner.score(batch(dialogues)).logprobs
        return [
            replace(dialogue, logprobs=line[len(dialogue.prompt) : len(dialogue)].tolist())
            for dialogue, line in zip(dialogues, scored, strict=True)
        ]

    def play(self, prompts: Sequence[list[int]], written: int) -> list[Trajectory]:
        """Sample a response of `written` tokens per prompt; rewards are not set yet."""
        sampler = TransformersSampler(self.model, NEVER, 0)
        self.iteration += 1
        seeds = [self.iteration * len(prompts) + row for row in range(len(prompts))]
        session = sampler.session(seeds, SamplingParams(max_tokens=written))
        played = [Trajectory(id=str(row), group=row // GROUP, member=row % GROUP) for row in range(len(prompts))]
        for row, sampled in session.generate(dict(enumerate(prompts))):
            played[row].append_prompt(prompts[row])
            played[row].append_response(sampled.ids, sampled.logprobs, sampled.entropies, 0)
        return played

    def iterate(self, texts: Sequence[str], tokenizer: Any, written: int, reward: Callable[[str], float]) -> float:
        """Rollout and update. Returns the seconds of the rollout, rewards and tensors included."""
        started = time.perf_counter()
        played = self.play(tokenizer(list(texts))["input_ids"], written)
        responses = tokenizer.batch_decode([trajectory.response(0) for trajectory in played], skip_special_tokens=True)
        for row, (trajectory, text) in enumerate(zip(played, responses, strict=True)):
            trajectory.turns.append(_paid(row, 0, reward(text)))
        update_batch = collate(played, pad_id=0)
        took = time.perf_counter() - started
        self.update(update_batch)
        return took


def main() -> None:
    connection, job = WorkerConnection(), json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    device, peak = job["device"], Peak(job["device"])
    master = torch.bfloat16 if job["dtype"] == "bfloat16" else torch.float32
    model = build(job["shape"], job["seed"], device, master)
    if not job.get("shared", True):
        os.environ[VARIANTS_VARIABLE] = "separate"
    ours = OurWorker(model, settings(job["rows"], job["dtype"], checkpointing=job["checkpointing"]))
    tokenizer = None
    if job.get("tokenizer"):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(job["tokenizer"])
    connection.answer(versions={"torch": torch.__version__})
    loaded: dict[str, Batch] = {}
    while True:
        command = connection.next()
        if command["do"] == "record":
            for name in command["works"]:
                save(ours.record(load(Path(name))), Path(name))
            connection.answer()
            continue
        rollout, metrics = 0.0, {}
        if command["do"] == "step" and command["work"] not in loaded:
            loaded[command["work"]] = batch(load(Path(command["work"])))
        clock = Clock(peak)
        if command["do"] == "step":
            metrics = ours.update(loaded[command["work"]])
        else:
            from bench.lib.iteration_task import reward

            rollout = ours.iterate(job["prompts"], tokenizer, job["written"], reward)
        connection.answer(**clock.stop(rollout), norm=metrics.get("policy/grad_norm"))


if __name__ == "__main__":
    main()
