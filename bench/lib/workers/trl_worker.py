"""TRL's side of the comparisons, in TRL's environment: GRPOTrainer takes its next step on command.

With recorded dialogues (`works`) it trains on those through `rollout_func`; with prompts it generates first.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import accelerate
import torch
import transformers
import trl
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from bench.lib.iteration_task import reward
from bench.lib.random_models import build
from bench.lib.recorded_dialogues import GROUP, Dialogue, load
from bench.lib.resource_meter import Clock, Peak
from bench.lib.worker_protocol import WorkerConnection

REPEATS = 100
"""Copies of the prompts in the data set, so that no epoch ends within a step."""


class TimedTrainer(GRPOTrainer):
    """Records the seconds before the loss, and the gradient norm."""

    seconds_before_loss = 0.0
    norm = 0.0

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        started = time.perf_counter()
        inputs = super()._prepare_inputs(generation_batch)
        if self.accelerator.device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds_before_loss += time.perf_counter() - started
        return inputs


class Paced(TrainerCallback):
    """Waits for a command before each step and sends the result after it."""

    def __init__(self, connection: WorkerConnection, peak: Peak) -> None:
        self.connection, self.peak = connection, peak
        self.command: dict[str, Any] = {}
        self.trainer: TimedTrainer | None = None
        self.clock: Clock | None = None

    def on_step_begin(self, *arguments: Any, **named: Any) -> None:
        assert self.trainer is not None
        self.command = self.connection.next()
        self.trainer.seconds_before_loss = 0.0
        self.clock = Clock(self.peak)

    def on_step_end(self, *arguments: Any, **named: Any) -> None:
        assert self.trainer is not None
        assert self.clock is not None
        self.connection.answer(**self.clock.stop(self.trainer.seconds_before_loss), norm=self.trainer.norm)


def options(job: dict[str, Any], folder: str) -> GRPOConfig:
    """Return the settings of bench/lib/workers/our_worker.py for TRL; no logging, saving or evaluation."""
    return GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=job["rows"],
        gradient_accumulation_steps=1,
        num_generations=GROUP,
        max_completion_length=job.get("written", 1),
        generation_kwargs={"min_new_tokens": job.get("written", 1)},
        max_steps=100_000,
        learning_rate=1e-6,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=1.0,
        num_iterations=1,
        beta=0.0,
        temperature=1.0,
        epsilon=0.2,
        entropy_coef=0.001,
        loss_type="dapo",
        bf16=job["dtype"] == "bfloat16",
        gradient_checkpointing=job["checkpointing"],
        logging_strategy="no",
        save_strategy="no",
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
        shuffle_dataset=False,
        use_cpu=job["device"] == "cpu",
        seed=job["seed"],
    )


def main() -> None:
    connection, job = WorkerConnection(), json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    peak = Peak(job["device"])
    paced = Paced(connection, peak)
    loaded: dict[str, list[Dialogue]] = {}

    def recorded() -> list[Dialogue]:
        name = paced.command["work"]
        if name not in loaded:
            loaded[name] = load(Path(name))
        return loaded[name]

    def replay(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
        played = recorded()
        return {
            "prompt_ids": [dialogue.prompt for dialogue in played],
            "completion_ids": [dialogue.rest for dialogue in played],
            "env_mask": [[int(drawn) for drawn in dialogue.sampled] for dialogue in played],
            "logprobs": None,
        }

    def paid(completions: list[str], **named: Any) -> list[float]:
        return (
            [reward(text) for text in completions] if "prompts" in job else [dialogue.reward for dialogue in recorded()]
        )

    texts = job.get("prompts") or ["A"] * job["rows"]
    with tempfile.TemporaryDirectory() as folder:
        trainer = TimedTrainer(
            model=build(job["shape"], job["seed"]),
            reward_funcs=paid,
            args=options(job, folder),
            train_dataset=Dataset.from_list([{"prompt": text} for text in texts[::GROUP]] * REPEATS),
            processing_class=AutoTokenizer.from_pretrained(job["tokenizer"]),
            callbacks=[paced],
            rollout_func=None if "prompts" in job else replay,
        )
        paced.trainer = trainer
        clip = trainer.accelerator.clip_grad_norm_

        def clipped(*arguments: Any, **named: Any) -> Any:
            norm = clip(*arguments, **named)
            trainer.norm = float(norm)
            return norm

        trainer.accelerator.clip_grad_norm_ = clipped
        packages = (trl, transformers, accelerate, torch)
        connection.answer(versions={package.__name__: package.__version__ for package in packages})
        trainer.train()


if __name__ == "__main__":
    main()
