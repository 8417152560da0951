"""`build-pocket`: builds the shipped pocket policies and measures them (minutes each)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from trainer.config.run import PolicyConfig, RolloutConfig, RunConfig, WarmupConfig
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.evaluation import suite_runner
from trainer.imitation import warmup
from trainer.imitation.courses import COURSES
from trainer.paths import shipped_folder
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import Policy, load
from trainer.rollout.runner import RolloutRequest, RolloutRunner


def success_rate(policy: Policy, config: RunConfig) -> float:
    """Measure the success rate on the fixed prompts of the evaluation."""
    chat = ChatFormat.of_rollout(policy.tokenizer, config.rollout)
    runner = RolloutRunner(
        config=config,
        chat=chat,
        sampler=TransformersSampler(policy.model, chat.eos_id, policy.pad_id),
        context=policy.context,
        emit=lambda *events: None,
    )
    plans = suite_runner.group_plans(config, 0)
    trajectories = runner.play(
        RolloutRequest(plans, iteration=0, split="eval", temperature=config.evaluation.temperature)
    )
    return sum(trajectory.success for trajectory in trajectories) / len(trajectories)


def plan(settings: WarmupConfig, folder: Path | None, *, every: bool) -> list[tuple[WarmupConfig, Path]]:
    """Return the settings of each policy to build, and the folder for it: below `folder` by course, or the shipped one.

    Args:
        every: build the policies of all courses with otherwise equal settings; `folder` is then their parent folder.
    """
    if not every:
        return [(settings, folder or shipped_folder(settings.course))]
    return [
        (settings.model_copy(update={"course": course}), folder / course if folder else shipped_folder(course))
        for course in COURSES
    ]


def build(settings: WarmupConfig, target: Path, report: Callable[[str], None]) -> None:
    """Train, save and measure; the record next to the weights contains settings and success rates."""
    target.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()

    def progress(done: int, total: int) -> None:
        if done % 20 == 0 or done == total:
            seconds = time.monotonic() - start
            report(f"warm-up: step {done} of {total}, {seconds:.0f} s")

    warmup.write(target, settings, progress)
    policy = load(target, PolicyConfig())
    tasks = COURSES[settings.course].tasks(RolloutConfig())
    rates = {config.environment.name: round(success_rate(policy, config), 4) for config, _ in tasks}
    record = target / warmup.RECORD
    facts = json.loads(record.read_text())
    course = "" if settings.course == "general" else f" --set course={settings.course}"
    facts["command"] = f"python -m trainer build-pocket{course}"
    facts["success_on_256_fixed_prompts_at_temperature_0.5"] = rates
    record.write_text(json.dumps(facts, indent=2) + "\n")
    report(f"{target}: {policy.parameters:,} parameters, success {rates}")
