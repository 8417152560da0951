"""The Echo Trap detector of the site, over journals of other trainers as the recorder writes them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

import echoscope
from tests.tiers import nightly_but
from tests.webapp import journal_builder
from tests.webapp.api.api_clients import Callers, callers
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.javascript import evaluate
from tests.webapp.notifications.conftest import Make, make_rule
from tests.webapp.page_requests import Visitors, who
from trainer.diagnostics.backtest import backtest, read_metrics
from trainer.diagnostics.echo_trap import EchoTrap
from trainer.journal import events as journal
from trainer.metrics.trap_signals import SIGNALS
from webapp.ingest import echo_trap_detector
from webapp.ingest.rebuild import do_rebuild
from webapp.ingest.tailer import JournalTailer
from webapp.live.snapshot import snapshot
from webapp.notifications.dispatch import dispatch
from webapp.notifications.models import Delivery, Notification, Rule, RunEvent
from webapp.runs import echo_trap
from webapp.runs.models import EchoTrapState, MetricPoint, Run

__all__ = ["callers", "make_rule", "who"]

Values = dict[str, float]


def signals(falls: bool, iterations: int = 80) -> Iterator[tuple[int, Values]]:
    """Metrics of a run that learns; one that `falls` loses spread and entropy from iteration 30 on, then success."""
    chance = random.Random(1)
    for iteration in range(1, iterations + 1):
        lost = min(1.0, max(0.0, (iteration - 30) / 15)) if falls else 0.0
        success = 0.5 * (1 - (min(1.0, max(0.0, (iteration - 50) / 15)) if falls else 0.0))
        yield (
            iteration,
            {
                "reward/mean": success + chance.gauss(0, 0.01),
                "reward/in_group_std": 0.4 * (1 - lost) + abs(chance.gauss(0, 0.005)),
                "success/rate": success + abs(chance.gauss(0, 0.01)),
                "entropy/mean": 1.0 * (1 - 0.8 * lost) + chance.gauss(0, 0.01),
                "policy/grad_norm": 1.0 + chance.gauss(0, 0.05),
            },
        )


def record(folder: Path, metrics: Iterator[tuple[int, Values]], *, finish: bool = True) -> Path:
    """A journal as the recorder writes it, the metrics of each iteration in two events as of TRL."""
    run = echoscope.init("GRPO on Wordle", folder=folder, config={"lr": 1e-6}, iterations=80)
    for iteration, values in metrics:
        names = sorted(values)
        run.log({name: values[name] for name in names[:2]}, iteration=iteration)
        run.log({name: values[name] for name in names[2:]} | {"my/loss": 0.1}, iteration=iteration)
    if finish:
        run.finish()
    return folder / "journal.jsonl"


def test_faults_are_named_from_what_was_sent(people: People, tmp_path: Path) -> None:
    run = echoscope.init("GRPO on Wordle", folder=tmp_path)
    for step in range(10, 90, 10):  # as trainers that log every tenth step
        attempts = run.group(8, iteration=step, prompt="Guess.")
        for attempt in attempts:
            attempt.finish(success=True, total_reward=1.0)
        failed = 2 if step == 50 else 0
        run.used(attempts[failed:], environment_error=attempts[:failed], iteration=step)
        run.log({"policy/learning_rate": 0.0 if step >= 70 else 1e-5}, iteration=step)
    run.finish()
    read = imported(tmp_path, people)
    assert [(fault["cause"], fault["since"]) for fault in read.faults] == [("no_learning_rate", 80)]
    points = MetricPoint.objects.filter(run=read, name="attempts/environment_error").order_by("iteration")
    assert list(points.values_list("iteration", "value")) == [(50, 2.0)]
    sick = RunEvent.objects.filter(run=read, kind=Rule.Event.SICK).order_by("pk")
    assert [event.details["faults"][0]["cause"] for event in sick] == ["no_learning_rate"]
    before = read.faults
    assert do_rebuild(read, tmp_path).faults == before


def imported(folder: Path, people: People) -> Run:
    call_command("import_journal", str(folder), "--team", people.team.slug, "--user", "ada")
    return Run.objects.latest("pk")


def verdict(run: Run) -> dict[str, Any]:
    """All that the site has judged of a run."""
    points = MetricPoint.objects.filter(run=run, name__in=echo_trap.SIGNAL_METRICS).order_by("name", "iteration")
    return {
        "alarms": list(run.alarms.order_by("seq", "pk").values_list("iteration", "state", "message")),
        "points": list(points.values_list("name", "iteration", "value", "tokens")),
        "state": echo_trap.get_state(snapshot(Run.objects.get(pk=run.pk))),
    }


def test_a_collapse_raises_the_watch_then_the_alarm_and_each_alert_once(
    people: People, who: Visitors, make_rule: Make, tmp_path: Path
) -> None:
    make_rule(events=[Rule.Event.WATCH, Rule.Event.TRAPPED])
    path = record(tmp_path / "run", signals(falls=True))
    run = imported(tmp_path / "run", people)
    states = [state for _, state, _ in verdict(run)["alarms"]]
    assert (states[0], states[-1]) == ("watch", "trapped")
    for _ in range(2):
        dispatch()
    assert list(Delivery.objects.order_by("pk").values_list("event", flat=True)) == states
    alarms = {alarm.iteration: alarm for alarm in run.alarms.all()}
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for iteration, alarm in alarms.items():
        first_later = next(e for e in events if e["type"] == "metrics" and e["iteration"] > iteration)
        assert alarm.seq == first_later["seq"], "an iteration is complete once a later one has metrics"
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert 'data-trap="trapped"' in page
    assert contains(page, run.alarms.get(state="trapped").message)
    assert not contains(page, "If it collapses")
    assert not contains(page, "No data yet")
    curves = who.owner.get(f"/runs/{run.slug}/curves").content.decode()
    assert contains(curves, f"trapped since iteration {max(alarms)}")
    notified = Notification.objects.filter(user=people.owner, kind__in=("watch", "trapped")).order_by("pk")
    assert list(notified.values_list("kind", flat=True)) == states


def test_the_verdict_is_that_of_the_backtest(people: People, tmp_path: Path) -> None:
    path = record(tmp_path / "run", signals(falls=True))
    run = imported(tmp_path / "run", people)
    metrics, _ = read_metrics(path)
    expected = [(alarm.iteration, alarm.state, alarm.message) for alarm in backtest(metrics).alarms]
    assert verdict(run)["alarms"] == expected


def test_a_run_that_learns_is_green(people: People, who: Visitors, tmp_path: Path) -> None:
    record(tmp_path / "run", signals(falls=False))
    run = imported(tmp_path / "run", people)
    assert verdict(run)["alarms"] == []
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert 'data-trap="healthy"' in page
    assert contains(
        page, "No sign of a collapse in reward spread, entropy drift, gradient spikes, reward drop and slow"
    )


@pytest.mark.parametrize("finish", [True, False])
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["reward/mean"], "The run recorded reward/mean, but none of reward/in_group_std, entropy/mean and policy"),
        (["reward/mean", "success/rate"], "The run recorded reward/mean and success/rate, but none of"),
    ],
)
def test_a_run_without_signals_lists_the_missing_ones(
    names: list[str], expected: str, finish: bool, people: People, who: Visitors, tmp_path: Path
) -> None:
    metrics = ((at, {"my/loss": 0.5} | {name: values[name] for name in names}) for at, values in signals(falls=True))
    record(tmp_path / "run", metrics, finish=finish)
    run = imported(tmp_path / "run", people)
    assert verdict(run)["state"] == "not_recorded"
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert contains(page, "Nothing to judge")
    assert contains(page, expected)
    for invented in ("The first iterations will show", "If it collapses", "No data yet", "no data yet"):
        assert not contains(page, invented)


def test_a_run_that_ended_too_early_is_not_judged(people: People, who: Visitors, tmp_path: Path) -> None:
    record(tmp_path / "run", signals(falls=True, iterations=5))
    run = imported(tmp_path / "run", people)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert 'data-trap="too_short"' in page
    assert contains(page, "The run ended before there were enough iterations to compare.")


@pytest.mark.parametrize("name", ["reward/in_group_std", "entropy/mean", "policy/grad_norm"])
def test_one_signal_alone_is_judged(name: str, people: People, tmp_path: Path) -> None:
    record(tmp_path / "run", ((at, {name: values[name]}) for at, values in signals(falls=False)))
    assert verdict(imported(tmp_path / "run", people))["state"] == "healthy"


def test_a_trainer_that_logs_every_500th_step_is_judged_by_what_it_logged(people: People, tmp_path: Path) -> None:
    record(tmp_path / "every", signals(falls=True))
    record(tmp_path / "some", ((500 * at, values) for at, values in signals(falls=True)))
    every, some = (verdict(imported(tmp_path / name, people)) for name in ("every", "some"))
    assert [(500 * at, state, text) for at, state, text in every["alarms"]] == some["alarms"]
    evidence = echo_trap.evidence(Run.objects.latest("pk"))
    assert len(evidence["gradient"]) == sum(name == "echo_trap/gradient" for name, *_ in every["points"])
    assert echo_trap.SignalEvidence(SIGNALS[0], evidence["spread"]).crossed


def test_names_of_trl_are_judged(people: People, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from echoscope.integrations.transformers_trainer import EchoscopeCallback

    run = echoscope.init("GRPO", folder=tmp_path / "run", config={})
    callback = EchoscopeCallback(run=run)
    args, control = transformers.TrainingArguments(output_dir=str(tmp_path)), transformers.TrainerControl()
    for iteration, values in signals(falls=True):
        state = transformers.TrainerState(global_step=iteration)
        run.log({name: values[name] for name in ("reward/in_group_std", "success/rate")}, iteration=iteration)
        logs = {"reward": values["reward/mean"], "entropy": values["entropy/mean"], "grad_norm": 1.0, "epoch": 0.1}
        callback.on_log(args, state, control, logs=logs)
    run.finish()
    assert verdict(imported(tmp_path / "run", people))["state"] == "trapped"


# -- in pieces, repeated, out of order --------------------------------------------------------------------------------


def test_pieces_and_restarts_give_the_same_verdict(
    people: People, callers: Callers, tmp_path: Path, make_rule: Make
) -> None:
    make_rule(events=[Rule.Event.WATCH, Rule.Event.TRAPPED])
    path = record(tmp_path / "run", signals(falls=True))
    whole = verdict(imported(tmp_path / "run", people))
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    ends = [sum(map(len, lines[:count])) for count in (*range(4, len(lines), 7), len(lines))]
    answer = callers.owner.post("/api/runs/import?growing=true", data[: ends[0]])
    assert answer.status_code == 201
    run = Run.objects.latest("pk")
    for start, end in pairwise(ends):
        more = "false" if end == len(data) else "true"
        sent = callers.owner.call("PUT", f"/api/runs/{run.slug}/journal?offset={start}&growing={more}", data[start:end])
        assert sent.status_code == 200, sent.content
        dispatch()
    assert verdict(run) == whole
    assert Delivery.objects.filter(run=run).count() == len(whole["alarms"])
    keys = list(run.alarms.values_list("pk", flat=True))
    sent = callers.owner.call("PUT", f"/api/runs/{run.slug}/journal?offset=0&growing=false", data)
    assert sent.status_code == 409
    assert list(run.alarms.values_list("pk", flat=True)) == keys
    do_rebuild(Run.objects.get(pk=run.pk), tmp_path / "run")
    assert verdict(run) == whole
    dispatch()
    assert Delivery.objects.filter(run=run).count() == len(whole["alarms"]), "a repeated judgement is no new alarm"


@pytest.mark.parametrize("seed", nightly_but([1, 2], [1]))
def test_late_and_repeated_metrics_give_the_same_verdict(seed: int, people: People, tmp_path: Path) -> None:
    """Each metric comes in an event of its own, up to four iterations late, and one in ten twice."""
    record(tmp_path / "ordered", signals(falls=True))
    ordered = verdict(imported(tmp_path / "ordered", people))
    chance = random.Random(seed)
    events = [
        (iteration + delay, iteration, name, value)
        for iteration, values in signals(falls=True)
        for name, value in values.items()
        for delay in (chance.randrange(5), *([chance.randrange(5)] if chance.random() < 0.1 else []))
    ]
    recorder = echoscope.init("GRPO on Wordle", folder=tmp_path / "late", config={})
    run, tailer = None, None
    for number, (_, iteration, name, value) in enumerate(sorted(events)):
        recorder.log({name: value}, iteration=iteration)
        if number == 20:
            run = imported(tmp_path / "late", people)
        elif number > 20 and number % 5 == 0:
            assert run is not None
            tailer = JournalTailer(Run.objects.get(pk=run.pk), tmp_path / "late")
            tailer.drain()
    recorder.finish()
    assert run is not None
    JournalTailer(Run.objects.get(pk=run.pk), tmp_path / "late").drain()
    assert without_tokens(verdict(run)) == without_tokens(ordered)


def without_tokens(judged: Mapping[str, Any]) -> dict[str, Any]:
    return {**judged, "points": [(name, at, pytest.approx(value)) for name, at, value, _ in judged["points"]]}


def test_a_very_late_metric_repeats_the_whole_judgement(people: People, tmp_path: Path) -> None:
    all_metrics = list(signals(falls=True, iterations=300))
    early = [(at, {} if at == 3 else values) for at, values in all_metrics]
    record(tmp_path / "run", iter([*early, all_metrics[2]]))
    record(tmp_path / "ordered", iter(all_metrics))
    assert verdict(imported(tmp_path / "run", people)) == verdict(imported(tmp_path / "ordered", people))


def test_a_new_attempt_repeats_what_it_supersedes(people: People, tmp_path: Path) -> None:
    journal_of = tmp_path / "run"
    recorded = {"recorded": {"lr": 1e-6}}
    first = journal_builder.started().model_copy(update={"config": recorded})
    second = journal_builder.started(attempt=2, from_iteration=30).model_copy(update={"config": recorded})

    def logged(metrics: Iterator[tuple[int, Values]]) -> list[journal.Event]:
        return [journal.Metrics(iteration=at, tokens=at, seconds=at, values=values) for at, values in metrics]

    falling = list(signals(falls=True))
    healthy = dict(signals(falls=False))
    again = [(at, healthy[at]) for at in range(31, 81)]
    end = journal.RunFinished(reason="completed", iteration=80, message="", summary={})
    journal_builder.write(journal_of, first, *logged(iter(falling)), second, *logged(iter(again)), end)
    run = imported(journal_of, people)
    assert verdict(run)["state"] == "healthy"
    assert not run.alarms.exists()


def test_only_what_is_new_is_judged(people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a batch does not grow with the run."""
    judged: list[int] = []
    update = EchoTrap.update

    def counted(trap: Any, iteration: int, metrics: Mapping[str, float]) -> Any:
        judged.append(iteration)
        return update(trap, iteration, metrics)

    monkeypatch.setattr(EchoTrap, "update", counted)
    path = record(tmp_path / "whole", signals(falls=False, iterations=300))
    lines = path.read_bytes().splitlines(keepends=True)
    growing = tmp_path / "run" / "journal.jsonl"
    growing.parent.mkdir()
    growing.write_bytes(b"".join(lines[:2]))
    run = imported(growing.parent, people)
    for start in range(2, len(lines), 20):
        with growing.open("ab") as file:
            file.writelines(lines[start : start + 20])
        JournalTailer(Run.objects.get(pk=run.pk), growing.parent).drain()
    assert judged == list(range(1, 301))
    state = EchoTrapState.objects.get(run=run)
    assert len(state.states) <= echo_trap_detector.STATES
    assert len(json.dumps(state.states)) < 64 * 1024


# -- runs of our own trainer, and journals with verdicts --------------------------------------------------------------


def test_runs_of_our_own_trainer_are_not_judged_twice(people: People, tmp_path: Path) -> None:
    journal_builder.write(
        tmp_path / "run",
        journal_builder.started(),
        *(
            journal.Metrics(iteration=at, tokens=at, seconds=at, values=values | {"echo_trap/spread": 0.9})
            for at, values in signals(falls=True)
        ),
        journal.Alarm(iteration=50, state="watch", message="It says so itself."),
    )
    run = imported(tmp_path / "run", people)
    assert list(run.alarms.values_list("message", "computed")) == [("It says so itself.", False)]
    assert not EchoTrapState.objects.exists()
    names = set(MetricPoint.objects.filter(run=run).values_list("name", flat=True))
    assert {name for name in names if name.startswith("echo_trap/")} == {"echo_trap/spread"}


def test_verdicts_in_the_journal_of_another_trainer_are_kept(people: People, tmp_path: Path) -> None:
    started = journal_builder.started().model_copy(update={"config": {"recorded": {}}})
    metrics = [journal.Metrics(iteration=at, tokens=at, seconds=at, values=values) for at, values in signals(True)]
    alarm = journal.Alarm(iteration=60, state="watch", message="It says so itself.")
    path = journal_builder.write(tmp_path / "run", started, *metrics[:60])
    run = imported(tmp_path / "run", people)
    assert run.alarms.filter(computed=True).exists()
    journal_builder.write(path.parent, alarm, *metrics[60:])
    JournalTailer(Run.objects.get(pk=run.pk), path.parent).drain()
    run.refresh_from_db()
    assert run.resync_seq == run.seq == 1 + len(metrics) + 1, "open pages reload with what was read at once"
    assert list(run.alarms.values_list("message", flat=True)) == ["It says so itself."]
    assert not MetricPoint.objects.filter(run=run, name__in=echo_trap.SIGNAL_METRICS).exists()


# -- live -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("share", "step"), [(0.1, 1), (0.5, 100), (0.9, 1)])
def test_an_open_page_shows_what_a_reloaded_one_shows(
    share: float, step: int, late: bool, people: People, tmp_path: Path
) -> None:
    metrics = [(step * at, values) for at, values in signals(falls=True)]
    if late:
        metrics[30:60] = [*metrics[31:60], metrics[30]]
    lines = record(tmp_path / "whole", iter(metrics)).read_bytes().splitlines(keepends=True)
    growing = tmp_path / "run" / "journal.jsonl"
    growing.parent.mkdir()
    cut = int(share * len(lines))
    growing.write_bytes(b"".join(lines[:cut]))
    run = imported(growing.parent, people)
    early = as_json(snapshot(run))
    for start in range(cut, len(lines), 9):
        with growing.open("ab") as file:
            file.writelines(lines[start : start + 9])
        JournalTailer(Run.objects.get(pk=run.pk), growing.parent).drain()
        frames = run.batches.filter(last_seq__gt=early["seq"]).order_by("last_seq").values_list("frame", flat=True)
        events = [event for frame in frames for event in json.loads(frame)["events"]]
        reduced = evaluate("live/reducer.js", "reduceAll(data.state, data.events)", {"state": early, "events": events})
        reloaded = as_json(snapshot(Run.objects.get(pk=run.pk)))
        for part in ("evidence", "alarms", "alarm"):
            assert reduced[part] == reloaded[part], part
    state = echo_trap.get_state(reloaded)
    signs = {sign.key: {"title": sign.title, "bad": sign.bad} for sign in SIGNALS}
    shown = evaluate(
        "live/echo_trap.js",
        "[levelOf(data.page), messageOf(data.page, levelOf(data.page), data.signs)]",
        {"page": reloaded, "signs": signs},
    )
    assert shown == [state, echo_trap.message(reloaded, state)]


def as_json(data: Any) -> Any:
    return json.loads(json.dumps(data, default=str))
