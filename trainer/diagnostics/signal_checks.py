"""Signals of the Echo Trap detector: one function for each, and the table that registers them.

A new signal is a function and an entry in CHECKS here, with its description in trainer/metrics/trap_signals.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from trainer.algorithms.group_filter import EQUAL_REWARDS
from trainer.diagnostics.metric_history import MetricHistory, deviation

SPREAD, REWARD, SUCCESS = "reward/in_group_std", "reward/mean", "success/rate"
ENTROPY, GRADIENT, DISTINCT = "entropy/mean", "policy/grad_norm", "diversity/think_distinct_2"
FORMAT = "format/valid_rate"
COMMONEST, INFORMATION, CLAIMS = "diversity/commonest_thought", "reasoning/mutual_information", "claims/true_share"
WATCHED = (SPREAD, REWARD, SUCCESS, ENTROPY, GRADIENT, DISTINCT, FORMAT, COMMONEST, INFORMATION, CLAIMS)

SPREAD_LOST = 0.5  # lost spread: in-group std below this share of its slow average
MASTERED = 0.9  # above this success rate spread falls because few mistakes are left
RISING = 1.0  # still learning: rise of reward or success above its earlier average, in deviations of one iteration
FALLEN, FALLEN_AFTER_SPREAD = 2.0, 1.2  # fall of the reward below it; smaller once spread was lost
DRIFT, DRIFT_SHARE = 3.0, 0.1  # entropy off its course: robust deviations, and share of its slow average
SPIKE_TIMES, SPIKE_DEVIATIONS = 3.0, 4.0  # gradient: times the median, and robust deviations above it
SPIKES = 3  # per window: two also occur in healthy runs, in three of 40 recorded ones
BROKEN = 0.75  # valid format below this share of its earlier rate
DECLINED = 0.8  # decline: success below this share of its best
DECLINE_NOISE = 2.5  # and lower by this many robust deviations of a single iteration
ALIKE = 0.9  # and the in-group spread below this share of its best
MOSTLY, BREAK = 0.7, 0.5  # broken: valid format of at least the first falls at once below the second share of it
SOMETIMES = 0.25  # from this rate on, no success for a third of a window is no coincidence
ENTROPY_TIMES, ENTROPY_NATS = 3.0, 0.5  # entropy explodes: times the median, and nats above it
GRADIENT_TIMES, GRADIENT_NORM = 20.0, 10.0  # the gradient norm explodes: times the median, and minimum
TEMPLATE = 0.7  # distinct pairs in thoughts fall below this share of their slow average
ECHO, VARIETY_LOST = 0.8, 0.5  # share of the commonest thought, and remaining share of the greatest variety
INFORMATION_LOST, LEAST_INFORMATION = 0.5, 0.2  # share of the highest mutual information that is left; nats
UNTRUE = 0.85  # true claims below this share of their best


@dataclass
class SignalMemory:
    """State of the signals between iterations.

    Attributes:
        seen: iteration of the last occurrence, by signal.
        before: averages of metrics before the first sign.
        spikes: iterations of the last window with a gradient spike.
        low_spread: consecutive iterations with lost spread.
    """

    window: int
    series: dict[str, MetricHistory]
    seen: dict[str, int] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)
    spikes: list[int] = field(default_factory=list)
    low_spread: int = 0
    fault: str = ""
    """The common fault of this iteration's turns without a valid format."""

    @property
    def short(self) -> int:
        """A third of a window: the minimum duration of a sign."""
        return max(2, self.window // 3)

    @property
    def reward_known(self) -> bool:
        """True if there are enough rewards for a comparison with earlier ones."""
        return self.series[REWARD].count >= (self.window if FORMAT in self.before else 2 * self.window)

    def reward_change(self) -> float:
        """Return the reward's fast average minus the earlier one, in deviations of a single iteration."""
        reward = self.series[REWARD]
        return (reward.fast - reward.earlier) / reward.noise if self.reward_known else 0.0

    def success_change(self) -> float:
        """Return the success rate's fast average minus the earlier one, in deviations of a single iteration."""
        success = self.series[SUCCESS]
        return (success.fast - success.earlier) / success.noise if success.count >= 2 * self.window else 0.0

    def add(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Add an iteration's metrics; missing and non-finite metrics are skipped."""
        self._count_spikes(iteration, metrics.get(GRADIENT))
        for name, series in self.series.items():
            value = metrics.get(name)
            if value is not None and math.isfinite(value):
                series.add(value)

    def _count_spikes(self, iteration: int, norm: float | None) -> None:
        self.spikes = [spike for spike in self.spikes if spike > iteration - self.window]
        earlier = self.series[GRADIENT].values
        if norm is None or len(earlier) < self.window:
            return
        usual = median(earlier)
        if norm > SPIKE_TIMES * usual and norm - usual > SPIKE_DEVIATIONS * deviation(earlier):
            self.spikes.append(iteration)


@dataclass(frozen=True)
class Reading:
    """A signal's reading at one iteration.

    `value` and `limit` are its metrics; `text` and `evidence` describe it in an alarm while it is `present`. `broke`:
    the policy changed within an iteration or a few, which can happen before there are enough values for a course.
    """

    value: float
    limit: float
    present: bool
    text: str
    evidence: dict[str, float]
    broke: bool = False


def _usual(values: Sequence[float]) -> float | None:
    """Return the median of the values before the last one; None for fewer than two."""
    return median(values[:-1]) if len(values) > 2 else None


def spread(memory: SignalMemory) -> Reading | None:
    """Detect that the trajectories of a group stop differing in reward."""
    threshold = SPREAD_LOST * (1.25 if "spread" in memory.seen else 1.0)  # higher once seen, as hysteresis
    left = _spread_left(memory)
    memory.low_spread = memory.low_spread + 1 if left is not None and left < threshold else 0
    if left is None:
        return None
    present, now = memory.low_spread >= memory.short, memory.series[SPREAD]
    if present:
        memory.before.setdefault(SPREAD, now.earlier)
        memory.before.setdefault(SUCCESS, memory.series[SUCCESS].earlier)
    baseline = memory.before.get(SPREAD, now.earlier)
    text = (
        f"rewards within a group differ by {now.fast:.2f} (standard deviation), down from {baseline:.2f}, "
        "and success does not explain it"
    )
    return Reading(left, threshold, present, text, {"in_group_std": now.fast, "in_group_std_before": baseline})


def _spread_left(memory: SignalMemory) -> float | None:
    """Estimate the remaining share of the earlier in-group spread, corrected for success; None if impossible.

    With success rate p the spread of a group is proportional to √(p (1 − p)): a policy that succeeds more often may
    vary less, but not one that fails more often.
    """
    spread, success = memory.series[SPREAD], memory.series[SUCCESS]
    earlier = memory.before.get(SPREAD, spread.earlier)
    if spread.count < 2 * memory.window or earlier <= EQUAL_REWARDS or memory.reward_change() > RISING:
        return None
    if earlier - spread.fast < spread.noise:
        return 1.0  # within chance
    left = spread.fast / earlier
    if success.count:
        now, baseline = success.fast, memory.before.get(SUCCESS, success.earlier)
        if now >= MASTERED:
            return None
        if now > baseline:
            left /= min(1.0, math.sqrt(now * (1 - now)) / max(math.sqrt(baseline * (1 - baseline)), 1e-6))
    return left


def entropy(memory: SignalMemory) -> Reading | None:
    """Detect that entropy leaves its steady course, up or down; a fall while success clearly rises is learning."""
    now = memory.series[ENTROPY]
    usual = _usual(now.values)
    if usual is not None and now.values[-1] > max(ENTROPY_TIMES * usual, usual + ENTROPY_NATS):
        last = now.values[-1]
        text = f"entropy jumped from {usual:.2f} to {last:.2f} nats: the policy samples at random"
        times, evidence = last / max(usual, 1e-9), {"entropy": last, "entropy_before": usual}
        return Reading(max(DRIFT, times), DRIFT, True, text, evidence, broke=True)
    if not now.on_course:
        return None
    drift, moved = now.drift(), now.fast - now.slow
    # A decay that only slows down is not a rise: drift and movement must agree.
    present = abs(drift) > DRIFT and abs(moved) > DRIFT_SHARE * abs(now.slow) and drift * moved > 0
    present = present and not (drift < 0 and memory.success_change() > RISING)
    direction = "falls" if drift < 0 else "rises"
    text = f"entropy {direction} off its course, to {now.fast:.3f} from {now.slow:.3f} nats"
    evidence = {"entropy": now.fast, "entropy_before": now.slow, "entropy_drift": drift}
    return Reading(drift, DRIFT, present, text, evidence)


def valid_format(memory: SignalMemory) -> Reading | None:
    """Detect that answers lose their format, within an iteration or over several."""
    now = memory.series[FORMAT]
    earlier = _usual(now.values)
    if earlier is not None and earlier >= MOSTLY and now.values[-1] < BREAK * earlier:
        memory.before.setdefault(FORMAT, earlier)
        last, why = now.values[-1], f" ({memory.fault})" if memory.fault else ""
        text = f"valid format fell from {100 * earlier:.0f}% to {100 * last:.0f}% of the turns{why}"
        evidence = {"format_valid": last, "format_valid_before": earlier}
        return Reading(last / earlier, BREAK, True, text, evidence, broke=True)
    usual = memory.before.get(FORMAT, now.earlier)
    if now.count <= memory.short or usual <= 0:
        return None
    recovering = now.values[-1] > now.fast and "format" not in memory.seen
    present = now.fast < BROKEN * usual and not recovering
    if present:
        memory.before.setdefault(FORMAT, now.earlier)
    baseline = memory.before.get(FORMAT, usual)
    text = f"only {100 * now.fast:.0f}% of the turns keep the format, down from {100 * baseline:.0f}%"
    if memory.fault:
        text += f" ({memory.fault})"
    evidence = {"format_valid": now.fast, "format_valid_before": baseline}
    return Reading(now.fast / usual, BROKEN, present, text, evidence)


def template(memory: SignalMemory) -> Reading | None:
    """Detect that thoughts repeat a template."""
    now = memory.series[DISTINCT]
    if now.count < memory.window or now.slow <= 0:
        return None
    text = f"thoughts repeat a template ({100 * now.fast:.0f}% distinct pairs)"
    present = now.fast < TEMPLATE * now.slow
    return Reading(now.fast / now.slow, TEMPLATE, present, text, {"think_distinct_2": now.fast})


def gradient(memory: SignalMemory) -> Reading | None:
    """Detect repeated gradient spikes, but not at nearly full success, where any lesson causes a spike."""
    norms, success, count = memory.series[GRADIENT].values, memory.series[SUCCESS], float(len(memory.spikes))
    mastered, usual = success.count > 0 and success.fast >= MASTERED, _usual(norms)
    if usual is not None and norms[-1] > max(GRADIENT_TIMES * usual, GRADIENT_NORM) and not mastered:
        text = f"the gradient norm jumped from {usual:.2g} to {norms[-1]:.3g}"
        evidence = {"grad_norm": norms[-1], "grad_norm_usual": usual}
        return Reading(float(max(SPIKES, len(memory.spikes))), float(SPIKES), True, text, evidence, broke=True)
    if len(norms) <= memory.window:
        return None
    text = f"the gradient spiked {len(memory.spikes)} times within {memory.window} iterations"
    evidence = {"gradient_spikes": count, "grad_norm_usual": median(norms)}
    return Reading(count, float(SPIKES), count >= SPIKES and not mastered, text, evidence)


def reward(memory: SignalMemory) -> Reading | None:
    """Detect a fall of the mean reward; a smaller fall counts once spread was lost."""
    if not memory.reward_known:
        return None
    now = memory.series[REWARD]
    fall, limit = -memory.reward_change(), FALLEN_AFTER_SPREAD if SPREAD in memory.before else FALLEN
    if fall > limit:
        memory.before.setdefault(REWARD, now.earlier)
    baseline = memory.before.get(REWARD, now.earlier)
    text = f"the mean reward fell from {baseline:.2f} to {now.fast:.2f}"
    return Reading(fall, limit, fall > limit, text, {"reward": now.fast, "reward_before": baseline})


def success(memory: SignalMemory) -> Reading | None:
    """Detect that success ends, or that it slowly declines while the rewards of a group become alike.

    The other signals compare with the last windows, which decline as well during a slow fall.
    """
    now, spread = memory.series[SUCCESS], memory.series[SPREAD]
    failed = next((n for n, value in enumerate(reversed(now.values)) if value), len(now.values))
    earlier_values = now.values[: len(now.values) - failed]
    if failed >= memory.short and len(earlier_values) > 1 and (usual := median(earlier_values)) >= SOMETIMES:
        memory.before.setdefault(SUCCESS, usual)
        text = f"no trajectory has succeeded for {failed} iterations, where {100 * usual:.0f}% did before"
        evidence = {"success": 0.0, "success_before": usual}
        return Reading(max(0.0, 1 - failed / memory.window), DECLINED, True, text, evidence, broke=True)
    if now.count < 2 * memory.window or now.best <= 0:
        return None
    left, fall = now.fast / now.best, now.best - now.fast
    present = left < DECLINED and fall > DECLINE_NOISE * now.noise and spread.fast < ALIKE * spread.best
    if present:
        memory.before.setdefault(SUCCESS, now.best)
    text = (
        f"success fell slowly from {100 * now.best:.0f}% to {100 * now.fast:.0f}%, "
        f"and rewards within a group became more alike"
    )
    return Reading(left, DECLINED, present, text, {"success": now.fast, "success_before": now.best})


def echo(memory: SignalMemory) -> Reading | None:
    """Detect that most attempts begin with one thought and earlier ones did not; not where success explains it.

    A policy that has one template from the start, numbers aside, is not a sign: nothing has been lost.
    """
    now = memory.series[COMMONEST]
    if now.count < memory.window or now.lowest >= 1:
        return None
    left = (1 - now.fast) / (1 - now.lowest)
    present = now.fast >= ECHO and left < VARIETY_LOST and not _explained(memory)
    text = f"{100 * now.fast:.0f}% of the attempts begin with the same thought, up from {100 * now.lowest:.0f}%"
    return Reading(left, VARIETY_LOST, present, text, {"commonest_thought": now.fast})


def information(memory: SignalMemory) -> Reading | None:
    """Detect that thoughts no longer depend on the state that they are about."""
    now = memory.series[INFORMATION]
    if now.count < memory.window or now.best < LEAST_INFORMATION:
        return None
    left = now.fast / now.best
    text = f"thoughts tell less about their state ({now.fast:.2f} nats, {now.best:.2f} at best)"
    present = left < INFORMATION_LOST and not _explained(memory)
    return Reading(left, INFORMATION_LOST, present, text, {"mutual_information": now.fast})


def claims(memory: SignalMemory) -> Reading | None:
    """Detect that fewer claims about the state are true, beyond chance."""
    now = memory.series[CLAIMS]
    if now.count < 2 * memory.window or now.best <= 0:
        return None
    left, fall = now.fast / now.best, now.best - now.fast
    text = f"true claims fell from {100 * now.best:.0f}% to {100 * now.fast:.0f}%"
    present = left < UNTRUE and fall > DECLINE_NOISE * now.noise
    return Reading(left, UNTRUE, present, text, {"true_claims": now.fast})


def _explained(memory: SignalMemory) -> bool:
    """True if success explains that attempts become alike: nearly all succeed, or more and more do."""
    success = memory.series[SUCCESS]
    return success.count > 0 and (success.fast >= MASTERED or memory.success_change() > RISING)


def learning(memory: SignalMemory) -> Reading | None:
    """Detect that rewards within groups differ at all; otherwise no group teaches anything, and nothing can be judged.

    Never a sign of a collapse: a run may begin without a signal, and a run that nearly always succeeds loses it.
    """
    now, success = memory.series[SPREAD], memory.series[SUCCESS]
    if now.count < memory.window:
        return None
    recent = now.values[-memory.window :]
    mastered = success.count > 0 and success.fast >= MASTERED
    share = 1.0 if mastered else sum(value > EQUAL_REWARDS for value in recent) / memory.window
    return Reading(share, 1 / memory.window, False, "", {})


@dataclass(frozen=True)
class SignalCheck:
    """A signal, and its consequences.

    Attributes:
        read: returns its reading, None while there is not enough to compare.
        early: a fallen reward after this signal is a collapse.
        watch: the signal by itself moves the detector to `watch`.
        shown: the signal is only shown and scored, and changes no state: too few collapses were recorded to set it on.
    """

    read: Callable[[SignalMemory], Reading | None]
    early: bool = False
    watch: bool = False
    shown: bool = False


CHECKS: dict[str, SignalCheck] = {
    "spread": SignalCheck(spread, early=True, watch=True),
    "entropy": SignalCheck(entropy, early=True, watch=True),
    "format": SignalCheck(valid_format, early=True, watch=True),
    "template": SignalCheck(template, early=True),
    "gradient": SignalCheck(gradient, watch=True),
    "reward": SignalCheck(reward),
    "success": SignalCheck(success, early=True, watch=True),
    "echo": SignalCheck(echo, shown=True),
    "information": SignalCheck(information, shown=True),
    "claims": SignalCheck(claims, shown=True),
    "learning": SignalCheck(learning),
}
"""Signals by key, in the order of reading and description: later ones use the memory of earlier ones."""
