"""Builds the pocket policy that ships with the project, and measures it: minutes, when it has to be rebuilt."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from trainer.config.run import PolicyConfig, RunConfig, WarmupConfig
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.evaluation import suite_runner
from trainer.imitation import warmup
from trainer.paths import POCKET_CHECKPOINT
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import Policy, load
from trainer.rollout.runner import RolloutRequest, RolloutRunner


def success(policy: Policy, config: RunConfig) -> float:
    """Success rate on the fixed prompts of the configuration's evaluation."""
    chat = ChatFormat(policy.tokenizer, think=config.rollout.think)
    player = RolloutRunner(
        config=config,
        chat=chat,
        sampler=TransformersSampler(policy.model, chat.eos_id, policy.pad_id),
        context=policy.context,
        emit=lambda *events: None,
    )
    plans = suite_runner.group_plans(config, 0)
    played = player.play(RolloutRequest(plans, iteration=0, split="eval", temperature=config.evaluation.temperature))
    return sum(trajectory.success for trajectory in played) / len(played)


def build(settings: WarmupConfig, folder: Path | None, say: Callable[[str], None]) -> None:
    """Train, save and measure; the record beside the weights says how they were made and what they can do."""
    target = folder or POCKET_CHECKPOINT
    began = time.monotonic()

    def tell(done: int, total: int) -> None:
        if done % 20 == 0 or done == total:
            seconds = time.monotonic() - began
            say(f"warm-up: step {done} of {total}, {seconds:.0f} s")

    warmup.write(target, settings, tell)
    policy = load(target, PolicyConfig())
    measured = {config.environment.name: round(success(policy, config), 4) for config, _ in warmup.tasks()}
    record = target / warmup.RECORD
    facts = json.loads(record.read_text())
    facts["command"] = "python -m trainer warmup"
    facts["success_on_256_fixed_prompts_at_temperature_0.5"] = measured
    record.write_text(json.dumps(facts, indent=2) + "\n")
    say(f"{target}: {policy.parameters:,} parameters, success {measured}")
