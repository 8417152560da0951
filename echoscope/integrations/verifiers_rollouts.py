"""Rollouts of verifiers' environments, and a monitor for prime-rl, which trains with them.

from echoscope.integrations.verifiers_rollouts import EchoscopeMonitor

monitor = EchoscopeMonitor(echoscope.init("Wordle", folder="runs/wordle"))
results = await env.generate(…)
monitor.log_samples(results["outputs"], step=1)
monitor.log({"reward": 0.4}, step=1)

The methods are those of prime-rl's `Monitor` (prime_rl.utils.monitor.base), so that an instance can stand in its list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from echoscope.integrations.metric_names import with_standard_names
from echoscope.integrations.sampled_groups import Sample, record_evaluation, record_samples, sample_metrics
from echoscope.recording.recorder import Recorder, Split

_READ = {"prompt", "completion", "reward", "trajectory", "client", "usage_tracker", "timing", "tool_defs"}


class EchoscopeMonitor:
    """Records metrics and rollouts by the step of the trainer.

    Attributes:
        history: metrics logged so far, as prime-rl's monitors keep them.
    """

    def __init__(self, run: Recorder, *, environment: str = "", success_at: float = 1.0) -> None:
        """
        Args:
            environment: name of the task; empty: as the rollouts say.
            success_at: reward from which on a rollout counts as a success.
        """
        self.run = run
        self.history: list[dict[str, Any]] = []
        self._environment, self._success_at = environment, success_at
        self._step = 0

    def log(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record metrics of a step; without one, of the `step` among them or of the last step."""
        self.history.append(dict(metrics))
        named = metrics.get("step") if step is None else step
        self._step = self._step if named is None else int(named)
        values = {name: value for name, value in metrics.items() if name != "step"}
        self.run.log(with_standard_names(values), iteration=self._step)

    def log_samples(self, rollouts: Sequence[Mapping[str, Any]], step: int) -> None:
        """Record rollouts of training, and the mean, the spread within groups and the success rate of their rewards.

        Raises:
            ConversationError: a prompt or completion is neither a text nor a list of messages.
        """
        self.run.log(sample_metrics(self._record(rollouts, step, "train", "")), iteration=step)

    def log_eval_samples(self, rollouts: Sequence[Mapping[str, Any]], env_name: str, step: int) -> None:
        """Record rollouts of an evaluation, and its result."""
        record_evaluation(self.run, self._record(rollouts, step, "eval", env_name), iteration=step, suite=env_name)

    def log_distributions(self, distributions: Mapping[str, Sequence[float]], step: int) -> None:
        """Nothing: the site has the distributions of what was recorded."""

    def log_final_samples(self) -> None:
        """Nothing: all samples are recorded at their step."""

    def log_final_distributions(self) -> None:
        """Nothing, as log_distributions."""

    def save_final_summary(self, filename: str = "final_summary.json") -> None:
        """Nothing: close() ends the run."""

    def close(self) -> None:
        """End the run."""
        self.run.finish()

    def _record(self, rollouts: Sequence[Mapping[str, Any]], step: int, split: Split, suite: str) -> list[Sample]:
        by_task: dict[str, list[Sample]] = {}
        for rollout in rollouts:
            named = self._environment or str(rollout.get("task") or rollout.get("env_id") or suite)
            by_task.setdefault(named, []).append(self._sample(rollout))
        for named, samples in by_task.items():
            record_samples(self.run, samples, iteration=step, environment=named, split=split, suite=suite)
        return [sample for samples in by_task.values() for sample in samples]

    def _sample(self, rollout: Mapping[str, Any]) -> Sample:
        reward, error = float(rollout.get("reward") or 0.0), rollout.get("error")
        if isinstance(error, Mapping):
            error = error.get("error_chain_str") or error.get("error")
        usage = rollout.get("token_usage")
        example = rollout.get("example_id")
        return Sample(
            prompt=rollout.get("prompt"),
            completion=rollout.get("completion"),
            terms={"environment": reward},
            success=None if rollout.get("reward") is None else reward >= self._success_at,
            group="" if example is None else str(example),
            tokens=int(usage.get("output_tokens") or 0) if isinstance(usage, Mapping) else 0,
            truncated=bool(rollout.get("is_truncated")),
            error=str(error or ""),
            extra={name: value for name, value in rollout.items() if name not in _READ and value is not None},
        )
