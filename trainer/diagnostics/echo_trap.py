"""The Echo Trap watch: says from each iteration's metrics whether a run is healthy, on the way to collapse, or gone.

Causal statistics only: what it says at an iteration depends on nothing later. What a run does about an alarm is decided
in the training loop.

A collapse has an order (arXiv 2504.20073): trajectories of a group stop differing in reward while the mean holds,
entropy leaves its steady decay, the reward falls, gradients spike. Small policies pushed too hard lose the format of
their answers first, within a few iterations. An early sign alone means `watch`; a fallen reward after one of them, or
spiking gradients after lost spread, means `trapped`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any, Literal

from trainer.config.run import EchoTrapConfig
from trainer.journal.events import Alarm
from trainer.metrics.trap_signals import LIMIT, PREFIX

State = Literal["healthy", "watch", "trapped"]

SPREAD, REWARD, SUCCESS = "reward/in_group_std", "reward/mean", "success/rate"
ENTROPY, GRADIENT, DISTINCT = "entropy/mean", "policy/grad_norm", "diversity/think_distinct_2"
FORMAT = "format/valid_rate"
WATCHED = (SPREAD, REWARD, SUCCESS, ENTROPY, GRADIENT, DISTINCT, FORMAT)

SLOW = 5  # windows the slow average spans, and that surprises are remembered for
MEMORY = 3  # windows an early sign counts as "before" a fall of the reward
CALM = 2  # windows without any sign until a watch ends
MASTERED = 0.9  # success rate above which spread is lost because there is little left to get wrong
RISING = 1.0  # reward above its earlier average, in deviations of one iteration: still learning, spread may shrink
FALLEN, FALLEN_AFTER_SPREAD = 2.0, 1.2  # the same below it: the reward has fallen; less is asked where spread was lost
DRIFT, DRIFT_SHARE = 3.0, 0.1  # entropy off its course: robust deviations, and share of its slow average
SPIKE_TIMES, SPIKE_DEVIATIONS, SPIKES = 3.0, 4.0, 2  # gradient: times the median, robust deviations, how many a window
BROKEN = 0.75  # valid format below this share of what it was
TEMPLATE = 0.7  # distinct pairs in thoughts below this share of their slow average


def is_safe_to_resume(state: Mapping[str, Any]) -> bool:
    """Whether the watch, by what its `state_dict` says, saw nothing to worry about: not even a first sign."""
    return state.get("state") == "healthy" and not state.get("low_spread")


class EchoTrap:
    """Feed it the metrics of every iteration in order; it answers with an alarm whenever its state changes."""

    def __init__(self, config: EchoTrapConfig) -> None:
        self.window, self.spread_threshold = config.window, config.spread_threshold
        self.state: State = "healthy"
        self.series = {name: MetricHistory(config.window) for name in WATCHED}
        self.seen: dict[str, int] = {}  # sign → iteration it was last seen
        self.low_spread = 0  # iterations in a row with lost spread
        self.since: int | None = None  # iteration at which the present unease began, signs too short to tell included
        self.before: dict[str, float] = {}  # averages from before the first sign
        self.spikes: list[int] = []
        self.lowest = math.inf  # of the fast reward since trapped
        self.weighed: dict[str, tuple[float, float]] = {}  # sign → what was compared at the last update, and its limit

    def update(self, iteration: int, metrics: Mapping[str, float]) -> Alarm | None:
        """Take in one iteration's metrics; those that are missing are passed over.

        Returns:
            An alarm when the state changes, with the evidence in words and numbers; None otherwise.
        """
        self._count_spikes(iteration, metrics.get(GRADIENT))
        for name, series in self.series.items():
            value = metrics.get(name)
            if value is not None and math.isfinite(value):
                series.add(value)
        signs = self._signs()
        for sign in signs:
            self.seen[sign] = iteration
        new = self._judge(iteration, signs)
        if signs or self.low_spread:
            self.since = iteration if self.since is None else self.since
        elif new == "healthy":
            self.since = None
        if new == "healthy" and not signs:
            self.before = {}
        if new == self.state:
            return None
        old, self.state = self.state, new
        if new == "trapped":
            self.lowest = self.series[REWARD].fast
        message, evidence = self._evidence(old, signs)
        if new == "healthy":
            self.seen = {}
        return Alarm(iteration=iteration, state=new, message=message, evidence=evidence)

    def statistics(self) -> dict[str, float]:
        """What the last update compared with what, as metrics; what could not be told yet is left out."""
        return {
            f"{PREFIX}{key}{ending}": number
            for key, pair in self.weighed.items()
            for ending, number in zip(("", LIMIT), pair, strict=True)
        }

    def sound_until(self, iteration: int) -> int:
        """The last iteration whose weights are above suspicion: half a window before unease began, or before now."""
        return (iteration + 1 if self.since is None else self.since) - max(1, self.window // 2)

    def _signs(self) -> dict[str, float]:
        """The signs that are there now, each with its strength."""
        signs: dict[str, float] = {}
        weighed = self.weighed = {}
        spread = self._spread_left()
        threshold = self.spread_threshold * (1.25 if "spread" in self.seen else 1.0)  # a little more to call it over
        self.low_spread = self.low_spread + 1 if spread is not None and spread < threshold else 0
        if spread is not None:
            weighed["spread"] = spread, threshold
        if spread is not None and self.low_spread >= max(2, self.window // 3):
            signs["spread"] = spread
            self.before.setdefault(SPREAD, self.series[SPREAD].earlier)
            self.before.setdefault(SUCCESS, self.series[SUCCESS].earlier)
        entropy = self.series[ENTROPY]
        drift, moved = entropy.drift(), entropy.fast - entropy.slow
        if entropy.on_course:
            weighed["entropy"] = drift, DRIFT
        if abs(drift) > DRIFT and abs(moved) > DRIFT_SHARE * abs(entropy.slow) and drift * moved > 0:
            signs["entropy"] = drift  # a decay that only slows down is no rise
        distinct = self.series[DISTINCT]
        if distinct.count >= self.window and distinct.slow > 0:
            weighed["template"] = distinct.fast / distinct.slow, TEMPLATE
        if distinct.count >= self.window and distinct.fast < TEMPLATE * distinct.slow:
            signs["template"] = distinct.fast / distinct.slow
        valid = self.series[FORMAT]
        usual = self.before.get(FORMAT, valid.earlier)
        known = valid.count > max(2, self.window // 3)
        if known and usual > 0:
            weighed["format"] = valid.fast / usual, BROKEN
        low = known and valid.fast < BROKEN * usual
        if low and (valid.values[-1] <= valid.fast or "format" in self.seen):  # not already on its way back
            self.before.setdefault(FORMAT, valid.earlier)
            signs["format"] = valid.fast
        mastered = self.series[SUCCESS].count > 0 and self.series[SUCCESS].fast >= MASTERED
        if len(self.series[GRADIENT].values) > self.window:
            weighed["gradient"] = float(len(self.spikes)), float(SPIKES)
        if len(self.spikes) >= SPIKES and not mastered:  # where hardly anything is left to learn, any lesson is a spike
            signs["gradient"] = float(len(self.spikes))
        fall, limit = -self._reward_change(), FALLEN_AFTER_SPREAD if SPREAD in self.before else FALLEN
        if self._reward_known:
            weighed["reward"] = fall, limit
        if fall > limit:
            signs["reward"] = fall
            self.before.setdefault(REWARD, self.series[REWARD].earlier)
        return signs

    def _spread_left(self) -> float | None:
        """Share of the earlier in-group spread that is left, once what success explains is allowed for; None unknown.

        With success rate p the spread of a group goes with √(p (1 − p)): a policy that succeeds more often is allowed
        to vary less. One that fails more often is not.
        """
        spread, success = self.series[SPREAD], self.series[SUCCESS]
        earlier = self.before.get(SPREAD, spread.earlier)
        if spread.count < 2 * self.window or earlier <= 1e-6 or self._reward_change() > RISING:
            return None
        if earlier - spread.fast < spread.noise:
            return 1.0  # no more than chance
        left = spread.fast / earlier
        if success.count:
            now, then = success.fast, self.before.get(SUCCESS, success.earlier)
            if now >= MASTERED:
                return None
            if now > then:
                left /= min(1.0, math.sqrt(now * (1 - now)) / max(math.sqrt(then * (1 - then)), 1e-6))
        return left

    def _reward_change(self) -> float:
        """The reward's fast average above (below: negative) the earlier one, in deviations of a single iteration."""
        reward = self.series[REWARD]
        return (reward.fast - reward.earlier) / reward.noise if self._reward_known else 0.0

    @property
    def _reward_known(self) -> bool:
        return self.series[REWARD].count >= (self.window if FORMAT in self.before else 2 * self.window)

    def _count_spikes(self, iteration: int, norm: float | None) -> None:
        self.spikes = [at for at in self.spikes if at > iteration - self.window]
        known = self.series[GRADIENT].values
        if norm is None or len(known) < self.window:
            return
        usual = median(known)
        if norm > SPIKE_TIMES * usual and norm - usual > SPIKE_DEVIATIONS * deviation(known):
            self.spikes.append(iteration)

    def _judge(self, iteration: int, signs: Mapping[str, float]) -> State:
        def lately(sign: str) -> bool:
            return sign in self.seen and iteration - self.seen[sign] <= MEMORY * self.window

        if self.state == "trapped":
            return self._after_trap(signs)
        early = any(map(lately, ("spread", "entropy", "template", "format")))
        if ("reward" in signs and early) or ("gradient" in signs and lately("spread")):
            return "trapped"
        if signs.keys() & {"spread", "entropy", "format", "gradient"}:
            return "watch"
        last = max(self.seen.values(), default=-math.inf)
        return self.state if iteration - last < CALM * self.window else "healthy"

    def _after_trap(self, signs: Mapping[str, float]) -> State:
        """Nothing moves any more at the bottom of a collapse: only a reward that came back ends it."""
        reward = self.series[REWARD]
        self.lowest = min(self.lowest, reward.fast)
        came_back = reward.fast > (self.before.get(REWARD, reward.slow) + self.lowest) / 2 + reward.noise
        return "healthy" if came_back and not signs else "trapped"

    def _evidence(self, old: State, signs: Mapping[str, float]) -> tuple[str, dict[str, float]]:
        """What is known, in one or two sentences and in numbers."""
        spread, reward, entropy = self.series[SPREAD], self.series[REWARD], self.series[ENTROPY]
        parts: list[str] = []
        evidence: dict[str, float] = {}
        if "spread" in signs:
            before = self.before[SPREAD]
            parts.append(
                f"rewards within a group differ by {spread.fast:.2f} (standard deviation), down from {before:.2f}, "
                "and success does not explain it"
            )
            evidence |= {"in_group_std": spread.fast, "in_group_std_before": before}
        if "entropy" in signs:
            direction = "falls" if signs["entropy"] < 0 else "rises"
            parts.append(f"entropy {direction} off its course, to {entropy.fast:.3f} from {entropy.slow:.3f} nats")
            evidence |= {"entropy": entropy.fast, "entropy_before": entropy.slow, "entropy_drift": signs["entropy"]}
        if "format" in signs:
            valid, before = self.series[FORMAT].fast, self.before[FORMAT]
            parts.append(f"only {100 * valid:.0f} % of the turns keep the format, down from {100 * before:.0f} %")
            evidence |= {"format_valid": valid, "format_valid_before": before}
        if "template" in signs:
            parts.append(f"thoughts repeat a template ({100 * self.series[DISTINCT].fast:.0f} % distinct pairs)")
            evidence |= {"think_distinct_2": self.series[DISTINCT].fast}
        if "gradient" in signs:
            usual = median(self.series[GRADIENT].values)
            parts.append(f"the gradient spiked {len(self.spikes)} times within {self.window} iterations")
            evidence |= {"gradient_spikes": signs["gradient"], "grad_norm_usual": usual}
        if "reward" in signs:
            before = self.before[REWARD]
            parts.append(f"the mean reward fell from {before:.2f} to {reward.fast:.2f}")
            evidence |= {"reward": reward.fast, "reward_before": before}
        said = "; ".join(parts)
        match self.state:
            case "watch":
                return f"{said[:1].upper()}{said[1:]}. A collapse may follow.", evidence
            case "trapped":
                return f"Collapse: {said}. Runs rarely come back from here; return to an earlier checkpoint.", evidence
        if old == "trapped":
            return f"The mean reward is back at {reward.fast:.2f}.", {"reward": reward.fast}
        return f"No sign of a collapse for {CALM * self.window} iterations.", {"in_group_std": spread.fast}

    def state_dict(self) -> dict[str, Any]:
        """Everything it remembers, as JSON-able data, for a checkpoint."""
        return {
            "state": self.state,
            "series": {name: series.state_dict() for name, series in self.series.items()},
            "seen": dict(self.seen),
            "low_spread": self.low_spread,
            "since": self.since,
            "before": dict(self.before),
            "spikes": list(self.spikes),
            "lowest": self.lowest if math.isfinite(self.lowest) else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.state = state["state"]
        for name in self.series.keys() & state["series"].keys():  # a checkpoint may be older than a metric watched now
            self.series[name].load_state_dict(state["series"][name])
        self.seen, self.before = dict(state["seen"]), dict(state["before"])
        self.low_spread, self.spikes = state["low_spread"], list(state["spikes"])
        self.since = state.get("since")
        self.lowest = math.inf if state["lowest"] is None else state["lowest"]


class MetricHistory:
    """One metric as the watch remembers it: a fast and a slow average, the last values, the surprises they were."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.count = 0
        self.averages = [[0.0, 0.0], [0.0, 0.0]]  # fast, slow: weighted sum and sum of weights, unbiased from the start
        self.values: list[float] = []
        self.surprises: list[float] = []
        self.slows: list[float] = []

    def add(self, value: float) -> None:
        """Take in the next value."""
        memory = SLOW * self.window
        if self.count:
            self.surprises = [*self.surprises, value - self.fast][-memory:]
        self.values = [*self.values, value][-memory:]
        self.count += 1
        for average, span in zip(self.averages, (self.window, memory), strict=True):
            keep = 1 - 2 / (span + 1)
            average[0], average[1] = keep * average[0] + value, keep * average[1] + 1
        self.slows = [*self.slows, self.slow][-self.window :]

    @property
    def fast(self) -> float:
        return self.averages[0][0] / self.averages[0][1] if self.count else 0.0

    @property
    def slow(self) -> float:
        return self.averages[1][0] / self.averages[1][1] if self.count else 0.0

    @property
    def earlier(self) -> float:
        """The slow average as it was a window ago, before whatever the fast one now shows."""
        return self.slows[0] if self.slows else 0.0

    @property
    def noise(self) -> float:
        """Robust deviation of a single iteration from the fast average."""
        return deviation(self.surprises)

    @property
    def on_course(self) -> bool:
        """Whether enough is known to speak of a course."""
        return len(self.surprises) - self._half >= self.window

    @property
    def _half(self) -> int:
        return max(2, self.window // 2)

    def drift(self) -> float:
        """How far the last half window is off the course it was on, in robust deviations of a single iteration."""
        if not self.on_course:
            return 0.0
        earlier, latest = self.surprises[: -self._half], self.surprises[-self._half :]
        return (fmean(latest) - median(earlier)) / deviation(earlier)

    def state_dict(self) -> dict[str, Any]:
        """Everything it remembers, as JSON-able data."""
        return {
            "count": self.count,
            "averages": [list(average) for average in self.averages],
            "values": list(self.values),
            "surprises": list(self.surprises),
            "slows": list(self.slows),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.count, self.averages = state["count"], [list(average) for average in state["averages"]]
        self.values, self.surprises = list(state["values"]), list(state["surprises"])
        self.slows = list(state["slows"])


def deviation(values: Sequence[float]) -> float:
    """Robust standard deviation: 1.4826 × the median distance from the median; never 0, one may divide by it."""
    if not values:
        return 1e-9
    middle = median(values)
    return max(1.4826 * median(abs(value - middle) for value in values), 1e-9)
