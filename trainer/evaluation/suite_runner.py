"""Plan and summary of an evaluation suite: always with the same initial states and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, variance

from trainer.config.evaluation import EVALUATION_SEED
from trainer.config.run import RunConfig
from trainer.diagnostics.compute import evaluation_metrics, pass_at_k
from trainer.evaluation.suites import Suite
from trainer.journal.events import Evaluation
from trainer.metrics.statistics import mean, wilson_interval
from trainer.rollout.runner import GroupPlan
from trainer.rollout.trajectory import Trajectory
from trainer.seeds import Purpose, derive


def is_due(config: RunConfig, iteration: int) -> bool:
    """True if the run is evaluated after this iteration: the last one, every `evaluation.every`-th, and 0.

    A run with a warm-up on demonstrations is also evaluated before the warm-up.
    """
    settings = config.evaluation
    if settings.prompts == 0:
        return False
    always = (-config.warmup_steps, 0, config.iterations)
    return iteration in always or bool(settings.every and iteration % settings.every == 0)


def group_plans(config: RunConfig, iteration: int, suite: int = 0) -> list[GroupPlan]:
    """Plan `evaluation.samples_per_prompt` trajectories for each fixed prompt of the suite with that number.

    All random draws depend only on the position in the suite, not on the run: additional prompts or samples do not
    change the existing ones, and every suite starts from the same seeds.
    """
    return [_plan(config, iteration, suite, number) for number in range(config.evaluation.prompts)]


def _plan(config: RunConfig, iteration: int, suite: int, number: int) -> GroupPlan:
    settings = config.evaluation
    seed, samples = EVALUATION_SEED, range(settings.samples_per_prompt)
    name = f"e{iteration:05d}{f'-s{suite}' if suite else ''}-p{number:03d}"
    # The first sample's seeds omit its number, so that evaluations stay comparable with evaluations of earlier runs.
    seed_paths = [(number,) if sample == 0 else (number, sample) for sample in samples]
    return GroupPlan(
        group=number,
        seed=derive(seed, Purpose.EVALUATION, Purpose.INITIAL_STATE, number),
        members=tuple(f"{name}-n{sample:02d}" if settings.samples_per_prompt > 1 else name for sample in samples),
        dynamics_seeds=tuple(derive(seed, Purpose.EVALUATION, Purpose.DYNAMICS, *path) for path in seed_paths),
        sampling_seeds=tuple(derive(seed, Purpose.EVALUATION, Purpose.SAMPLING, *path) for path in seed_paths),
        config=config,
    )


def pass_at_ks(samples: int) -> list[int]:
    """Return the k of pass@k for a number of samples: powers of two, and all samples; none for a single sample."""
    if samples < 2:
        return []
    powers = [1 << n for n in range(samples.bit_length()) if 1 << n <= samples]
    return powers if powers[-1] == samples else [*powers, samples]


def success_interval(by_prompt: Sequence[Sequence[bool]]) -> tuple[float, float]:
    """Compute the 95% interval of the success rate from one or more outcomes per prompt."""
    outcomes = [outcome for prompt in by_prompt for outcome in prompt]
    if len(by_prompt) == len(outcomes):
        return wilson_interval(sum(outcomes), len(outcomes))
    return clustered_interval(fmean(outcomes), [fmean(prompt) for prompt in by_prompt], len(outcomes))


def clustered_interval(rate: float, means: Sequence[float], trials: int) -> tuple[float, float]:
    """Compute the 95% interval of a mean of values from 0 to 1 that are correlated within clusters.

    This is Wilson's interval for Kish's effective sample size: the number of independent trials that would vary as much
    between clusters, limited to the range from the number of clusters to the number of values. Values of one cluster
    are correlated, and counting each in full would make the interval too narrow.

    Args:
        rate: mean of all values.
        means: mean of each cluster, at least one.
        trials: number of values.
    """
    clusters = len(means)
    spread = variance(means) / clusters if clusters > 1 else 0.0
    if rate in (0.0, 1.0) or clusters == 1:
        effective = float(clusters)
    else:
        effective = min(trials, max(clusters, rate * (1 - rate) / spread)) if spread else trials
    return wilson_interval(rate * effective, effective)


def summarize(
    suite: Suite, iteration: int, trajectories: Sequence[Trajectory], *, final: bool
) -> tuple[Evaluation, dict[str, float]]:
    """Return the event and the metrics of a finished suite with at least one trajectory."""
    name, samples = suite.name, suite.config.evaluation.samples_per_prompt
    by_prompt: dict[int, list[bool]] = {}
    for trajectory in trajectories:
        by_prompt.setdefault(trajectory.group, []).append(trajectory.success)
    values = evaluation_metrics(
        name,
        [t.success for t in trajectories],
        [t.total_reward for t in trajectories],
        [len(t.turns) for t in trajectories],
        [t.actions for t in trajectories],
    )
    low, high = success_interval(list(by_prompt.values()))
    values |= {f"eval/{name}/success_low": low, f"eval/{name}/success_high": high}
    response = mean(turn.tokens or 0 for t in trajectories for turn in t.turns)
    if response is not None:
        values[f"eval/{name}/response"] = response
    valid = mean(bool(turn.format_valid) for t in trajectories for turn in t.turns)
    if valid is not None:
        values[f"eval/{name}/valid_format"] = valid
    passed = {
        k: share
        for k in pass_at_ks(samples)
        if (share := mean(_known(pass_at_k(sum(p), len(p), k) for p in by_prompt.values()))) is not None
    }
    values |= {f"eval/{name}/pass@{k}": share for k, share in passed.items()}
    event = Evaluation(
        iteration=iteration,
        suite=name,
        prompts=len(by_prompt),
        samples=samples,
        success=values[f"eval/{name}/success"],
        success_low=low,
        success_high=high,
        pass_at=passed,
        mean_reward=values[f"eval/{name}/reward"],
        mean_turns=values[f"eval/{name}/turns"],
        mean_actions=values[f"eval/{name}/actions"],
        mean_response=response,
        final=final,
    )
    return event, values


def _known(shares: Iterable[float | None]) -> list[float]:
    """Drop the prompts that have too few completed samples."""
    return [share for share in shares if share is not None]
