"""The detector on simulated runs: groups of trajectories whose success, agreement and entropy follow a script."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from statistics import median

import numpy as np
import pytest

from trainer.diagnostics.echo_trap import WINDOW, EchoTrap
from trainer.diagnostics.metric_history import MetricHistory
from trainer.diagnostics.signal_checks import (
    CHECKS,
    CLAIMS,
    COMMONEST,
    DISTINCT,
    ENTROPY,
    FORMAT,
    GRADIENT,
    INFORMATION,
    REWARD,
    SPREAD,
    SUCCESS,
    WATCHED,
    SignalMemory,
)
from trainer.journal.events import Alarm
from trainer.metrics.registry import finite
from trainer.metrics.trap_signals import SIGNALS

SEEDS = range(12)


@dataclass(frozen=True)
class Script:
    """A run of `iterations`, learning from success rate `start` towards `end`; it collapses around `collapse`.

    A collapse as in the paper: `lead` iterations before the reward, the trajectories of a group begin to share
    their fate; then entropy and the variety of thoughts fall, then the reward, then gradients spike.
    """

    start: float = 0.15
    end: float = 0.5
    pace: float = 60
    iterations: int = 160
    groups: int = 8
    size: int = 16
    collapse: int | None = None
    lead: int = 40

    def play(self, seed: int) -> list[dict[str, float]]:
        rng = np.random.default_rng(seed)
        return [self._iteration(t, rng) for t in range(self.iterations)]

    def _iteration(self, t: int, rng: np.random.Generator) -> dict[str, float]:
        def gone(late: int, width: float) -> float:
            return 0.0 if self.collapse is None else float(np.tanh((t - self.collapse - late) / width / 2) / 2 + 0.5)

        rate = self.start + (self.end - self.start) * (1 - np.exp(-t / self.pace))
        rate = float(np.clip(rate * (1 - 0.95 * gone(0, 4)), 0.005, 0.99))
        agreement = gone(-self.lead, 4)
        concentration = 2.0 * (1 - agreement) + 0.05 * agreement
        chances = rng.beta(concentration * rate + 1e-3, concentration * (1 - rate) + 1e-3, self.groups)
        won = rng.random((self.groups, self.size)) < chances[:, None]
        rewards = 10.9 * won - 0.1 * rng.integers(3, 11, won.shape) - 0.1 * rng.binomial(5, 0.1, won.shape)
        spike = 8.0 if gone(5, 0.1) > 0.5 and rng.random() < 0.4 else 1.0
        return {
            "reward/in_group_std": float(rewards.std(axis=1, ddof=1).mean()),
            "reward/mean": float(rewards.mean()),
            "success/rate": float(won.mean()),
            "entropy/mean": float(
                (0.3 + 0.7 * np.exp(-t / 80)) * (1 - 0.6 * gone(-10, 5)) * np.exp(0.04 * rng.normal())
            ),
            "policy/grad_norm": float(0.5 * spike * np.exp(0.3 * rng.normal())),
            "diversity/think_distinct_2": float(0.3 * (1 - 0.6 * gone(-15, 6)) * np.exp(0.05 * rng.normal())),
        }


def watch(curves: list[dict[str, float]], trap: EchoTrap | None = None, first: int = 1) -> list[Alarm]:
    trap = trap or EchoTrap()
    alarms = [trap.update(iteration, values) for iteration, values in enumerate(curves, start=first)]
    return [alarm for alarm in alarms if alarm]


@pytest.mark.parametrize(
    "script",
    [
        Script(),
        Script(start=0.05, end=0.35, pace=150),
        Script(start=0.3, end=0.97, pace=30),
        Script(start=0.3, end=0.3),
        Script(start=0.03, end=0.06),
        Script(groups=4, size=8),
        Script(start=0.35, end=0.55, pace=20, iterations=40),
    ],
    ids=["learning", "slow learning", "mastery", "no progress", "hard task", "few trajectories", "short run"],
)
def test_healthy_runs_raise_no_alarm(script: Script) -> None:
    cried = {seed: [alarm.message for alarm in alarms] for seed in SEEDS if (alarms := watch(script.play(seed)))}
    assert not cried


@pytest.mark.parametrize(("collapse", "lead"), [(110, 40), (60, 30)])
def test_it_warns_before_the_reward_collapses_and_reports_the_collapse(collapse: int, lead: int) -> None:
    ahead, after = [], []
    for seed in SEEDS:
        alarms = watch(Script(collapse=collapse, lead=lead).play(seed))
        ahead.append(collapse - alarms[0].iteration)
        after.append(next(alarm.iteration for alarm in alarms if alarm.state == "trapped") - collapse)
        assert alarms[-1].state == "trapped", "nothing at the bottom of a collapse looks like health"
    assert median(ahead) >= 5
    assert max(after) <= 25


def of(**columns: list[float]) -> list[dict[str, float]]:
    """Metrics of a run by iteration, from columns named by the part before the slash."""
    names = {"success": SUCCESS, "format": FORMAT, "entropy": ENTROPY, "gradient": GRADIENT}
    return [
        {names[key]: values[n] for key, values in columns.items()} for n in range(len(next(iter(columns.values()))))
    ]


def test_a_real_run_that_breaks_its_format_within_an_iteration_is_reported_with_its_cause() -> None:
    """Measured: Qwen2.5 0.5B with LoRA, a rate of 3e-4 and four groups of six without a KL penalty."""
    curves = of(
        success=[0.75, 0.46, 0.0, 0.25, 0.25, 0.75, 0.04, 0.33], format=[1.0, 0.96, 1.0, 1.0, 1.0, 1.0, 0.04, 0.79]
    )
    trap = EchoTrap()
    alarms = [
        trap.update(number, values, "the policy writes </thinking>" if number == 7 else "")
        for number, values in enumerate(curves, start=1)
    ]
    assert [alarm.iteration for alarm in alarms if alarm] == [7]
    alarm = alarms[6]
    assert alarm.state == "watch"
    assert alarm.message.startswith("Valid format fell from 100% to 4% of the turns (the policy writes </thinking>). ")
    assert "optimizer.policy_lr" in alarm.message


@pytest.mark.parametrize(
    ("curves", "at", "text"),
    [
        (of(success=[0.4, 0.5, 0.3, 0.0, 0.0, 0.0]), 6, "No trajectory has succeeded for 3 iterations, where 40% did"),
        (of(entropy=[0.4, 0.42, 0.41, 2.2]), 4, "Entropy jumped from 0.41 to 2.20 nats"),
        (of(gradient=[0.8, 1.1, 0.9, 310.0]), 4, "The gradient norm jumped from 0.9 to 310"),
    ],
    ids=["success", "entropy", "gradient"],
)
def test_what_breaks_before_there_is_a_course_is_reported(curves, at, text) -> None:
    (alarm,) = watch(curves)
    assert (alarm.iteration, alarm.state) == (at, "watch")
    assert alarm.message.startswith(text)


def test_success_that_never_returns_is_a_collapse() -> None:
    states = [alarm.state for alarm in watch(of(success=[0.4, 0.5, 0.3] + [0.0] * 6))]
    assert states == ["watch", "trapped"]


@pytest.mark.parametrize(
    "curves",
    [
        of(success=[0.1, 0.2, 0.1, 0.0, 0.0, 0.0, 0.0, 0.1]),
        of(format=[0.3, 0.4, 0.1, 0.5, 0.2]),
        of(success=[0.33, 0.17, 0.33, 0.4, 0.42, 0.79, 0.67, 0.83, 0.88, 1.0, 1.0], entropy=[0.023] * 5 + [0.001] * 6),
        of(gradient=[0.01, 0.4, 2.0, 0.02, 3.0, 0.0, 9.0]),
    ],
    ids=["rare success", "no format yet", "a real bandit that learns", "noisy gradients"],
)
def test_beginnings_that_only_look_alarming_are_healthy(curves) -> None:
    assert not watch(curves)


def test_an_alarm_has_its_evidence_in_text_and_numbers() -> None:
    alarms = watch(Script(collapse=110).play(0))
    first = next(alarm for alarm in alarms if alarm.state == "watch")
    assert "within a group" in first.message
    assert first.evidence["in_group_std"] < 0.65 * first.evidence["in_group_std_before"]
    trapped = next(alarm for alarm in alarms if alarm.state == "trapped")
    assert trapped.message.startswith("Collapse:")
    assert trapped.evidence


def test_readings_contain_values_and_limits() -> None:
    trap = EchoTrap()
    recorded: list[tuple[int, dict[str, float], Alarm | None]] = []
    for iteration, values in enumerate(Script(collapse=110).play(0), start=1):
        alarm = trap.update(iteration, values)
        recorded.append((iteration, trap.statistics(), alarm))
    assert recorded[0][1] == {}, "nothing can be compared at first"
    assert finite(recorded[-1][1]) == recorded[-1][1], "each of them is in the table of metrics"
    first = next(number for number, _, alarm in recorded if alarm)
    spread = [
        (values["echo_trap/spread"], values["echo_trap/spread_limit"]) for _, values, _ in recorded[first - 3 : first]
    ]
    assert all(value < limit for value, limit in spread), "the sign was there for a third of the window"
    calm = [values for number, values, _ in recorded if 25 < number < first - 20]
    assert all(
        not sign.crossed(reading[sign.name], reading[sign.limit])
        for reading in calm
        for sign in SIGNALS
        if sign.key in ("spread", "reward", "gradient") and sign.name in reading
    )


def test_the_watch_is_causal() -> None:
    curves = Script(collapse=60, lead=30).play(3)
    assert watch(curves[:70]) == [alarm for alarm in watch(curves) if alarm.iteration <= 70]


def test_spread_lost_to_success_raises_no_alarm() -> None:
    better = [steady(0.3, spread=5.0)] * 20 + [steady(0.95, spread=1.5)] * 40
    worse = [steady(0.3, spread=5.0)] * 20 + [steady(0.3, spread=1.5)] * 40
    assert watch(better) == []
    assert watch(worse)[0].state == "watch"


def steady(success: float, *, spread: float = 5.0, entropy: float = 0.5) -> dict[str, float]:
    return {
        "reward/in_group_std": spread,
        "reward/mean": -1 + 11 * success,
        "success/rate": success,
        "entropy/mean": entropy,
    }


def test_entropy_leaving_its_decay_is_detected_in_both_directions() -> None:
    rng = np.random.default_rng(0)
    decay = [0.8 * 0.995**t + 0.005 * rng.normal() for t in range(60)]
    for factor in (0.3, 2.5):
        curves = [steady(0.3, entropy=e * (factor if t >= 50 else 1.0)) for t, e in enumerate(decay)]
        alarms = watch(curves)
        assert [alarm.state for alarm in alarms] == ["watch"]
        assert alarms[0].message.startswith("Entropy " + ("falls" if factor < 1 else "rises"))
        assert 50 < alarms[0].iteration <= 56
    assert watch([steady(0.3, entropy=e) for e in decay]) == []


def test_a_slowing_decay_is_not_a_rise_of_entropy() -> None:
    rng = np.random.default_rng(0)
    decay = [max(0.5 * 0.97**t, 0.1) + 0.002 * rng.normal() for t in range(90)]
    assert watch([steady(0.3, entropy=entropy) for entropy in decay]) == []


def test_a_rapid_loss_of_format_is_detected_at_once() -> None:
    """As in a small policy with too large a learning rate: hardly any success is left by iteration 6."""
    valid = [1.0, 0.98, 0.54, 0.3, 0.26, *[0.1] * 20]
    curves = [steady(0.3 * share) | {"format/valid_rate": share, "reward/mean": 3 * share - 1} for share in valid]
    alarms = watch(curves)
    assert [alarm.state for alarm in alarms] == ["watch", "trapped"]
    assert alarms[0].iteration <= 5
    assert alarms[1].iteration <= 12
    assert alarms[0].message.startswith("Valid format fell from 98% to 30% of the turns.")
    assert alarms[0].evidence["format_valid"] < 0.75 * alarms[0].evidence["format_valid_before"]


def test_a_transient_loss_of_format_raises_no_alarm() -> None:
    valid = [0.8, 0.12, 0.42, 0.58, 0.54, 0.62, 0.71, *[0.95] * 30]
    curves = [steady(0.3 * share) | {"format/valid_rate": share, "reward/mean": 3 * share - 1} for share in valid]
    assert watch(curves) == []


def test_poor_initial_format_raises_no_alarm() -> None:
    rng = np.random.default_rng(0)
    for start, end in ((0.2, 1.0), (0.9, 0.95), (0.5, 0.5)):
        valid = [end + (start - end) * 0.9**t + 0.03 * rng.normal() for t in range(80)]
        assert watch([steady(0.3) | {"format/valid_rate": share} for share in valid]) == []


def test_spikes_of_a_tiny_gradient_raise_no_alarm() -> None:
    norms = [0.01 if t % 4 else 0.9 for t in range(60)]
    hard, easy = ([steady(success) | {"policy/grad_norm": norm} for norm in norms] for success in (0.4, 0.97))
    assert watch(easy) == []
    assert watch(hard)[0].message.startswith("The gradient spiked 3 times")


def test_two_spikes_within_a_window_raise_no_alarm() -> None:
    norms = [0.01 if t % 6 else 0.9 for t in range(60)]
    assert watch([steady(0.4) | {"policy/grad_norm": norm} for norm in norms]) == []


def test_a_checkpoint_that_predates_a_watched_metric_can_be_loaded() -> None:
    old = EchoTrap()
    watch(Script().play(0)[:30], old)
    state = old.state_dict()
    del state["series"]["format/valid_rate"]
    new = EchoTrap()
    new.load_state_dict(state)
    assert watch(Script().play(0)[30:], new, first=31) == []


def test_a_watch_ends_when_the_spread_recovers() -> None:
    curves = [steady(0.3)] * 30 + [steady(0.3, spread=0.5)] * 15 + [steady(0.3)] * 60
    assert [alarm.state for alarm in watch(curves)] == ["watch", "healthy"]


def test_a_recovered_reward_ends_a_trap() -> None:
    rng = np.random.default_rng(1)

    def around(success: float, spread: float, n: int) -> list[dict[str, float]]:
        return [steady(success + 0.01 * rng.normal(), spread=spread) for _ in range(n)]

    alarms = watch(around(0.5, 5, 40) + around(0.5, 1, 15) + around(0.05, 1, 30) + around(0.5, 5, 60))
    assert [alarm.state for alarm in alarms] == ["watch", "trapped", "healthy"]


def test_a_watch_restored_from_its_state_continues_identically() -> None:
    curves = Script(collapse=60, lead=30).play(5)
    whole = watch(curves)
    for cut in (1, 35, 62, 90):
        before = EchoTrap()
        alarms = watch(curves[:cut], before)
        after = EchoTrap()
        after.load_state_dict(json.loads(json.dumps(before.state_dict(), allow_nan=False)))
        assert alarms + watch(curves[cut:], after, first=cut + 1) == whole


def test_missing_and_impossible_values_are_skipped() -> None:
    trap = EchoTrap()
    for iteration in range(1, 60):
        assert trap.update(iteration, {}) is None
    curves = Script(collapse=60, lead=30).play(2)
    holes = [
        {**values, "entropy/mean": float("nan"), "policy/grad_norm": float("inf")} if t % 7 == 3 else values
        for t, values in enumerate(curves)
    ]
    alarms = watch(holes)
    assert alarms[-1].state == "trapped"
    json.dumps([alarm.model_dump() for alarm in alarms], allow_nan=False)


def test_rewards_alone_suffice_to_detect_a_collapse() -> None:
    curves = [
        {name: values[name] for name in ("reward/in_group_std", "reward/mean")}
        for values in Script(collapse=90).play(1)
    ]
    assert [alarm.state for alarm in watch(curves)][-1] == "trapped"


def test_a_run_without_any_success_is_not_a_collapse() -> None:
    """All trajectories fail from the first iteration on."""
    rng = np.random.default_rng(0)
    curves = [steady(0.0, spread=0.2 + 0.05 * abs(rng.normal())) for _ in range(100)]
    assert watch(curves) == []


def test_groups_with_equal_rewards_leave_nothing_to_judge() -> None:
    """As in a run whose policy cannot name one action; a run that succeeds at everything is another matter."""
    for success, share in ((0.0, 0.0), (1.0, 1.0)):
        trap = EchoTrap()
        curves = [steady(success, spread=0.0)] * (3 * WINDOW)
        assert watch(curves, trap) == []
        assert trap.statistics()["echo_trap/learning"] == share
        assert (share < trap.statistics()["echo_trap/learning_limit"]) is (success == 0)
    watch([steady(0.0, spread=0.1)], trap := EchoTrap())
    assert "echo_trap/learning" not in trap.statistics(), "one iteration says nothing"


def test_one_group_that_differs_is_a_signal() -> None:
    trap = EchoTrap()
    flat = steady(0.0, spread=0.0)
    watch([*[flat] * WINDOW, steady(0.0, spread=0.2), *[flat] * (WINDOW - 1)], trap)
    assert trap.statistics()["echo_trap/learning"] == pytest.approx(1 / WINDOW)
    assert trap.statistics()["echo_trap/learning"] >= trap.statistics()["echo_trap/learning_limit"]


def test_every_signal_that_is_described_is_checked_in_the_same_order() -> None:
    assert list(CHECKS) == [signal.key for signal in SIGNALS]


@pytest.mark.parametrize("key", CHECKS)
def test_a_signal_has_no_reading_without_a_baseline(key) -> None:
    memory = SignalMemory(5, {name: MetricHistory(5) for name in WATCHED})
    assert CHECKS[key].read(memory) is None
    memory.add(1, dict.fromkeys(WATCHED, 0.5))
    assert CHECKS[key].read(memory) is None


PEAK = dict(zip(WATCHED, (5.0, 5.0, 0.5, 1.0, 1.0, 0.8, 1.0, 0.2, 2.0, 0.9), strict=True))
"""Metrics of a healthy iteration, before each of these falls or rises."""
FALLEN = {
    "spread": {SPREAD: 0.1},
    "entropy": {ENTROPY: 0.2},
    "format": {FORMAT: 0.1},
    "template": {DISTINCT: 0.1},
    "gradient": {GRADIENT: 90.0},
    "reward": {REWARD: -5.0},
    "echo": {COMMONEST: 0.98},
    "information": {INFORMATION: 0.1},
    "claims": {CLAIMS: 0.3},
}


@pytest.mark.parametrize("key", FALLEN)
def test_a_signal_reads_only_its_own_metric(key) -> None:
    memory = SignalMemory(6, {name: MetricHistory(6) for name in WATCHED})
    rng = np.random.default_rng(0)
    present: set[str] = set()
    for iteration in range(1, 46):
        metrics = PEAK | (FALLEN[key] if iteration > 40 else {})
        memory.add(iteration, {name: value * (1 + 0.01 * rng.normal()) for name, value in metrics.items()})
        readings = {name: reading for name, check in CHECKS.items() if (reading := check.read(memory)) is not None}
        assert iteration > 40 or not any(reading.present for reading in readings.values())
        present |= {name for name, reading in readings.items() if reading.present}
    assert present == {key}
    assert readings[key].text
    assert readings[key].evidence


def test_signals_that_are_only_shown_change_no_state() -> None:
    """All attempts write one thought, hardly any of it about the state or true, while the other metrics are steady."""
    trap = EchoTrap()
    thoughts = {COMMONEST: 0.98, INFORMATION: 0.1, CLAIMS: 0.3}
    earlier = PEAK | {SUCCESS: 0.5}
    assert watch([earlier] * 40 + [earlier | thoughts] * 30, trap) == []
    assert all(trap.readings[key].present for key in ("echo", "information", "claims"))
    assert trap.since is None


@pytest.mark.parametrize("won", [[0.95] * 30, list(np.linspace(0.3, 0.8, 30))], ids=["mastered", "learning"])
def test_attempts_that_become_alike_in_success_are_no_echo(won: list[float]) -> None:
    trap = EchoTrap()
    thoughts = {COMMONEST: 0.98, INFORMATION: 0.1}
    curves = [PEAK | {SUCCESS: 0.3}] * 30 + [PEAK | thoughts | {SUCCESS: success} for success in won]
    watch(curves, trap)
    assert not any(trap.readings[key].present for key in ("echo", "information"))


def sinking(seed: int, iterations: int = 260, start: float = 0.55) -> list[dict[str, float]]:
    """A collapse in small steps, as of a bandit whose groups agree more and more on the arm that pays less."""
    rng = np.random.default_rng(seed)
    curves = []
    for t in range(iterations):
        rate = start / (1 + np.exp((t - 170) / 30))
        pulled = rng.random((16, 8)) < rate
        rewards = np.where(pulled, rng.random((16, 8)) < 0.25, 0.15)
        curves.append(
            {
                REWARD: float(rewards.mean()),
                SPREAD: float(rewards.std(axis=1, ddof=1).mean()),
                SUCCESS: float(pulled.mean()),
                ENTROPY: 0.05 + 0.001 * float(rng.normal()),
                GRADIENT: 0.2 + 0.05 * float(rng.random()),
                DISTINCT: 0.013,
                FORMAT: 1.0,
            }
        )
    return curves


@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_collapse_is_seen_long_before_success_has_halved(seed: int) -> None:
    curves = sinking(seed)
    halved = next(t for t in range(10, 260) if np.mean([each[SUCCESS] for each in curves[t - 5 : t + 5]]) < 0.275)
    alarms = watch(curves)
    assert alarms[0].state == "watch"
    assert alarms[0].iteration <= halved - 20
    assert [alarm.iteration for alarm in alarms if alarm.state == "trapped"]
    assert not [alarm for alarm in alarms if alarm.state == "healthy"]


def test_a_fall_of_entropy_while_success_rises_is_learning() -> None:
    rng = np.random.default_rng(1)

    def curves(rises: float) -> list[dict[str, float]]:
        steady_part = [steady(0.4, spread=0.3) | {ENTROPY: 0.5 + 0.002 * rng.normal()} for _ in range(60)]
        moving = [
            steady(min(0.85, 0.4 + rises * t), spread=0.3) | {ENTROPY: 0.5 - 0.02 * t + 0.002 * rng.normal()}
            for t in range(20)
        ]
        noisy = [*steady_part, *moving]
        return [each | {SUCCESS: each[SUCCESS] + 0.02 * rng.normal()} for each in noisy]

    assert watch(curves(0.0))
    assert not watch(curves(0.02))


def test_the_best_average_survives_a_checkpoint() -> None:
    history = MetricHistory(5)
    for value in (0.1, 0.9, 0.9, 0.8, 0.7, 0.2, 0.1):
        history.add(value)
    restored = MetricHistory(5)
    restored.load_state_dict(json.loads(json.dumps(history.state_dict())))
    assert restored.best == history.best > 0.6
    older = {name: value for name, value in history.state_dict().items() if name != "best"}
    restored.load_state_dict(older)
    assert restored.best == max(history.slows)
    young = MetricHistory(5)
    young.add(0.4)
    restored.load_state_dict(json.loads(json.dumps(young.state_dict())))
    assert restored.best == young.best == -math.inf
