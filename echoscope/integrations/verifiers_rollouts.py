"""Records rollouts of verifiers' environments; a monitor for prime-rl, which trains with them.

from echoscope.integrations.verifiers_rollouts import EchoscopeMonitor

monitor = EchoscopeMonitor(echoscope.init("Wordle", folder="runs/wordle"))
monitor.log_samples(episode.traces, step=1)
monitor.log({"reward": 0.4}, step=1)

The methods are the same as in prime-rl's `Monitor` (prime_rl.utils.monitor.base), so that an instance can be in its
list.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from echoscope.importers.verifiers_traces import NODE_TENSORS, VerifiersTrace, is_trace, read_traces
from echoscope.integrations.metric_names import with_standard_names
from echoscope.integrations.sampled_groups import Sample, record_evaluation, record_samples, sample_metrics
from echoscope.recording.content_blocks import ConversationError
from echoscope.recording.harmless import harmless
from echoscope.recording.json_values import as_text, number_in
from echoscope.recording.recorder import Recorder
from echoscope.recording.splits import Split

_READ = {"prompt", "completion", "reward", "trajectory", "client", "usage_tracker", "timing", "tool_defs"}
_OF_PRIME_RL = ("env_name", "group_id", "advantage", "policy_version", "off_policy_steps")
"""Fields that prime-rl leaves out when it writes rollouts."""


class EchoscopeMonitor:
    """Records metrics and rollouts by the step of the trainer. A failure in it becomes a RuntimeWarning.

    Rollouts are traces or episodes of verifiers, such as prime-rl's, as objects or as written; or, from former
    versions, mappings with `prompt` and `completion`.

    Attributes:
        history: metrics logged so far, as prime-rl's monitors keep them.
    """

    def __init__(self, run: Recorder, *, environment: str = "", success_at: float = 1.0) -> None:
        """
        Args:
            environment: name of the task; empty: as the rollouts say.
            success_at: reward from which a rollout counts as a success.
        """
        self.run = run
        self.warnings = run.warnings
        self.history: list[dict[str, Any]] = []
        self._environment, self._success_at = environment, success_at
        self._step = 0
        self._failure: str | None = None

    @harmless
    def log(self, metrics: Mapping[str, Any], step: int | None = None, **_: Any) -> None:
        """Record metrics of a step; without one, of the `step` among them or of the last step."""
        self.history.append(dict(metrics))
        named = metrics.get("step") if step is None else step
        self._step = self._step if named is None else int(named)
        values = {name: value for name, value in metrics.items() if name != "step"}
        self.run.log(with_standard_names(values), iteration=self._step)

    @harmless
    def log_samples(self, rollouts: Sequence[Any], step: int, **_: Any) -> None:
        """Record rollouts of training, and the mean, the spread within groups and the success rate of their rewards.

        A rollout that cannot be read is left out with a warning.
        """
        self.run.log(sample_metrics(self._record(rollouts, step, "train", "")), iteration=step)

    @harmless
    def log_eval_samples(self, rollouts: Sequence[Any], env_name: str, step: int, **_: Any) -> None:
        """Record rollouts of an evaluation, and its result; otherwise as log_samples."""
        record_evaluation(self.run, self._record(rollouts, step, "eval", env_name), iteration=step, suite=env_name)

    def log_distributions(self, distributions: Mapping[str, Sequence[float]], step: int) -> None:
        """Do nothing, because the site computes distributions from the recorded rollouts."""

    def log_final_samples(self) -> None:
        """Do nothing, because all samples are recorded at their step."""

    def log_final_distributions(self) -> None:
        """Do nothing, as log_distributions."""

    def save_final_summary(
        self, filename: str = "final_summary.json", success: bool = True, error_message: str | None = None
    ) -> None:
        """Remember how the training ended, for close(), which ends the run. No file is written."""
        self._failure = None if success else error_message or "The training has failed."

    @harmless
    def close(self) -> None:
        """End the run, as failed if save_final_summary() was called with success=False."""
        if self._failure is None:
            self.run.finish()
        else:
            self.run.finish(reason="error", message=self._failure)

    def _record(self, rollouts: Sequence[Any], step: int, split: Split, suite: str) -> list[Sample]:
        by_task: dict[str, list[Sample]] = {}
        for rollout in rollouts:
            for named, sample in self._readable(rollout):
                by_task.setdefault(self._environment or named or suite, []).append(sample)
        for named, samples in by_task.items():
            record_samples(self.run, samples, iteration=step, environment=named, split=split, suite=suite)
        return [sample for samples in by_task.values() for sample in samples]

    def _readable(self, rollout: Any) -> list[tuple[str, Sample]]:
        """Return environment name and sample of each agent; none, with a warning, if the rollout cannot be read."""
        try:
            samples = list(self._samples(rollout))
            for _, sample in samples:
                sample.conversation  # noqa: B018 - raises for what cannot be read
        except Exception as error:  # noqa: BLE001 - objects of other versions of verifiers
            why = as_text(error)
            self.warnings.once(
                f"rollout {why}", f"A rollout is not recorded: {why}. Others with this fault are left out silently."
            )
            return []
        return samples

    def _samples(self, rollout: Any) -> Iterator[tuple[str, Sample]]:
        """Yield environment name and sample of each agent."""
        fields = _fields(rollout)
        if is_trace(fields):
            for trace in read_traces(fields):
                yield trace.environment, self._of_trace(trace)
        else:
            yield _name_in(fields), self._of_messages(fields)

    def _of_trace(self, trace: VerifiersTrace) -> Sample:
        return Sample(
            prompt=None,
            completion=trace.messages,
            terms=trace.terms,
            success=self._success(trace.reward),
            group=trace.group,
            tokens=trace.tokens,
            truncated=trace.truncated,
            error=trace.error,
            extra=trace.extra,
        )

    def _of_messages(self, rollout: Mapping[str, Any]) -> Sample:
        if not rollout.get("prompt") and not rollout.get("completion"):
            raise ConversationError(f"the rollout has no messages: its fields are {', '.join(map(str, rollout))}")
        reward = number_in(rollout.get("reward"))
        reward = reward if reward is not None and math.isfinite(reward) else None
        error = rollout.get("error")
        if isinstance(error, Mapping):
            error = error.get("error_chain_str") or error.get("error")
        usage = rollout.get("token_usage")
        example = rollout.get("example_id")
        return Sample(
            prompt=rollout.get("prompt"),
            completion=rollout.get("completion"),
            terms={} if reward is None else {"environment": reward},
            success=self._success(reward),
            group="" if example is None else str(example),
            tokens=int(usage.get("output_tokens") or 0) if isinstance(usage, Mapping) else 0,
            truncated=bool(rollout.get("is_truncated")),
            error=str(error or ""),
            extra={name: value for name, value in rollout.items() if name not in _READ and value is not None},
        )

    def _success(self, reward: float | None) -> bool | None:
        return None if reward is None else reward >= self._success_at


def _fields(rollout: Any) -> Mapping[str, Any]:
    """Return the rollout as it would be written, without values for each token. Raises ConversationError."""
    if isinstance(rollout, Mapping):
        return rollout
    if not hasattr(rollout, "model_dump"):
        raise ConversationError(f"a rollout is of type {type(rollout).__name__}: pass traces of verifiers or mappings")
    nodes = {"nodes": {"__all__": dict.fromkeys(NODE_TENSORS, True)}}
    excluded: dict[str, Any] = {"traces": {"__all__": nodes}} if hasattr(rollout, "traces") else nodes
    fields: dict[str, Any] = rollout.model_dump(mode="json", exclude=excluded)
    named = {name: getattr(rollout, name, None) for name in _OF_PRIME_RL if name not in fields}
    return fields | {
        name: value if isinstance(value, int | float) else str(value)
        for name, value in named.items()
        if value is not None
    }


def _name_in(rollout: Mapping[str, Any]) -> str:
    return next((rollout[name] for name in ("task", "env_id") if isinstance(rollout.get(name), str)), "")
