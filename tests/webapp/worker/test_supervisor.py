"""Supervision of a trainer process: start, output, control and cleanup, with real processes killed at any moment."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from channels.layers import get_channel_layer
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from tests.patience import SECONDS, wait_until
from tests.webapp import journal_builder
from trainer.config.files import load_yaml
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from trainer.journal import reader
from trainer.journal.protocol import CONFIG_FILE, JOURNAL_FILE
from webapp.core.publisher import run_group
from webapp.runs import actions, token_subscriptions
from webapp.runs.actions import do_request
from webapp.runs.models import EventBatch, Run, Worker
from webapp.runs.run_files import RunFiles
from webapp.runs.setting_changes import do_request_changes
from webapp.trajectories.models import Turn
from webapp.worker import parent_guard, supervisor
from webapp.worker.claims import do_claim_run
from webapp.worker.supervisor import Command, Intervals, supervise
from webapp.worker.trainer_process import trainer_command

pytestmark = pytest.mark.django_db(transaction=True)

INTERVALS = Intervals(tick=0.01, control=0.02, renew=0.1, stop_timeout=SECONDS, orphan_timeout=SECONDS, retry=0.05)


def act(scene: str) -> Command:
    def command(files: RunFiles) -> Sequence[str]:
        return [sys.executable, "-m", "tests.webapp.fake_trainer", scene, str(files.folder)]

    return command


def take(run: Run, worker: Worker | None = None) -> Run | None:
    """The run under a lease of this process, unless already claimed."""
    return do_claim_run(run.pk, worker, timezone.now())


class Watch:
    """A supervisor in a separate thread, as in a worker."""

    def __init__(self, run: Run, scene: str, intervals: Intervals = INTERVALS, worker: Worker | None = None) -> None:
        self.run, self.outcome = run, ""
        self._work = lambda: supervise(take(run, worker), command=act(scene), intervals=intervals)
        self._thread = threading.Thread(target=self._main)
        self._thread.start()

    def _main(self) -> None:
        try:
            self.outcome = self._work()
        finally:
            connection.close()

    def until(self, holds: Callable[[Run], object]) -> None:
        wait_until(lambda: holds(fresh(self.run)))

    def ended(self) -> str:
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        return self.outcome


def fresh(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def read_journal(run: Run) -> list[journal.AnyEvent]:
    return list(reader.read(run.folder / JOURNAL_FILE))


def assert_complete(run: Run) -> None:
    """Every event of the journal is in the frames once, and every turn that counts is a row."""
    events = read_journal(run)
    batches = EventBatch.objects.filter(run=run).order_by("last_seq").values_list("first_seq", "last_seq")
    seen = [seq for first, last in batches for seq in range(first, last + 1)]
    assert seen == [event.seq for event in events]
    counted: dict[tuple[str, int], int] = {}
    for event in events:
        if isinstance(event, journal.RunStarted):
            counted = {key: seq for key, seq in counted.items() if int(key[0].split("-")[0]) <= event.from_iteration}
        elif isinstance(event, journal.Turn):
            counted[event.trajectory, event.turn] = event.seq
    rows = Turn.objects.filter(trajectory__run=run).values_list("seq", flat=True)
    assert sorted(rows) == sorted(counted.values())


@pytest.fixture(autouse=True)
def _no_process_left(run: Run) -> Iterator[None]:
    yield
    parent_guard.kill_stale_trainer(RunFiles(run.folder).pid, 0)


def test_a_run_is_trained_to_its_end(run: Run) -> None:
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "finished"
    run = fresh(run)
    assert (run.state, run.iteration, run.attempt, run.lease) == ("finished", 4, 1, "")
    assert run.ended_at is not None
    assert_complete(run)


def test_a_trainer_gets_no_setting_that_was_removed_since_its_run_was_queued(run: Run) -> None:
    config = run.config | {"warmup": {"course": "general", "seed": 3}}
    Run.objects.filter(pk=run.pk).update(config=config)
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "finished"
    assert load_yaml(run.folder / CONFIG_FILE) == RunConfig.model_validate(config | {"warmup": {}})


def test_a_message_delivered_twice_starts_one_trainer(run: Run) -> None:
    watch = Watch(run, "long")
    watch.until(lambda now: now.state == "running")
    assert supervise(take(run), command=act("long"), intervals=INTERVALS) == "nothing to do"
    do_request(run, "stop")
    assert watch.ended() == "stopped"
    assert sum(isinstance(event, journal.RunStarted) for event in read_journal(run)) == 1


def test_requested_settings_reach_the_real_trainer(run: Run) -> None:
    shape = {"groups": 2, "group_size": 2, "max_turns": 1, "max_response_tokens": 24}
    config = RunConfig.model_validate(
        {
            "environment": {"name": "Bandit"},
            "iterations": 3,
            "rollout": shape,
            "algorithm": {"estimator": "gae"},
            "evaluation": {"prompts": 0},
            "policy": {"threads": 1},
        }
    )
    Run.objects.filter(pk=run.pk).update(config=config.model_dump(mode="json"))
    do_request_changes(fresh(run), run.author, {"optimizer.policy_lr": "5e-5"}, "before it starts")
    assert supervise(take(run), intervals=INTERVALS) == "finished"
    run = fresh(run)
    (change,) = run.setting_changes.all()
    assert (change.iteration, change.refused, run.iteration) == (1, "", 3)
    assert run.config["changes"] == {"optimizer.policy_lr@1": "5e-5"}
    rates = run.metrics.filter(name="policy/learning_rate").values_list("value", flat=True)
    assert set(rates) == {5e-5}


@pytest.mark.parametrize(("wish", "state"), [("pause", "paused"), ("stop", "stopped")])
def test_a_running_run_stops_after_its_turn_and_can_be_resumed(run: Run, wish: str, state: str) -> None:
    watch = Watch(run, "long")
    watch.until(lambda now: now.iteration >= 1)
    do_request(run, wish)
    assert watch.ended() == state
    stopped = fresh(run)
    assert stopped.checkpoints.exists()
    assert stopped.requested == ""
    do_request(run, "resume")
    again = Watch(run, "long")
    again.until(lambda now: now.attempt == 2 and now.iteration > stopped.iteration)
    do_request(run, "stop")
    again.ended()
    assert_complete(fresh(run))


def test_a_cancelled_run_ends_at_once(run: Run) -> None:
    watch = Watch(run, "stubborn")
    watch.until(lambda now: now.state == "running")
    do_request(run, "cancel")
    assert watch.ended() == "cancelled"
    assert parent_guard.stale_trainer(RunFiles(run.folder).pid) is None


def test_a_cancellation_that_is_undone_at_once_trains_on(run: Run) -> None:
    watch = Watch(run, "long")
    watch.until(lambda now: now.iteration >= 1)
    do_request(run, "cancel")
    assert watch.ended() == "cancelled"
    before = fresh(run)
    assert do_request(run, "undo-cancel").state == "queued"
    again = Watch(run, "long")
    again.until(lambda now: now.attempt == 2 and now.iteration > before.iteration)
    do_request(run, "stop")
    assert again.ended() == "stopped"
    assert_complete(fresh(run))


def test_an_unresponsive_trainer_is_killed_after_the_deadline(run: Run) -> None:
    impatient = Intervals(tick=0.01, control=0.02, renew=0.1, stop_timeout=0.3)
    watch = Watch(run, "stubborn", impatient)
    watch.until(lambda now: now.state == "running")
    do_request(run, "stop")
    assert watch.ended() == "stopped"


def test_a_crash_fails_the_run_and_keeps_the_end_of_its_log(run: Run) -> None:
    assert supervise(take(run), command=act("crash"), intervals=INTERVALS) == "failed"
    run = fresh(run)
    assert "ValueError: the loss is not a number" in run.log_tail
    assert "exit code 1" in run.failure
    assert "no checkpoint yet" in run.failure


def test_an_untrainable_configuration_fails_with_a_reason(run: Run) -> None:
    assert supervise(take(run), command=act("bad configuration"), intervals=INTERVALS) == "failed"
    assert "policy.model: there is no folder /nowhere" in fresh(run).failure


def test_a_killed_trainer_is_restarted_without_double_counting(run: Run) -> None:
    assert supervise(take(run), command=act("killed once"), intervals=INTERVALS) == "queued"
    assert supervise(take(run), command=act("killed once"), intervals=INTERVALS) == "finished"
    run = fresh(run)
    assert (run.attempt, run.iteration, run.crashes) == (2, 4, 1)
    assert_complete(run)


def test_a_repeatedly_killed_trainer_is_given_up(run: Run) -> None:
    outcomes = [
        supervise(take(run), command=act("killed"), intervals=INTERVALS) for _ in range(actions.MAX_CRASHES + 1)
    ]
    assert outcomes == ["queued"] * actions.MAX_CRASHES + ["failed"]
    assert "SIGKILL 4 times" in fresh(run).failure


def test_a_trainer_that_is_asked_to_end_while_it_starts_is_not_given_up(run: Run) -> None:
    for _ in range(actions.MAX_CRASHES + 1):
        assert supervise(take(run), command=act("ended"), intervals=INTERVALS) == "queued"
    assert fresh(run).crashes == 0


def test_a_supervisor_without_lease_ends_its_trainer_and_writes_nothing(run: Run) -> None:
    watch = Watch(run, "long")
    watch.until(lambda now: now.state == "running")
    Run.objects.filter(pk=run.pk).update(lease="somebody else")
    assert watch.ended() == "lease lost"
    assert parent_guard.stale_trainer(RunFiles(run.folder).pid) is None
    assert fresh(run).lease == "somebody else"


def test_a_worker_shutdown_requeues_its_run_with_a_checkpoint(run: Run) -> None:
    worker = actions.do_record_heartbeat("w", timezone.now())
    watch = Watch(run, "long", worker=worker)
    watch.until(lambda now: now.iteration >= 1)
    actions.do_record_heartbeat("w", timezone.now(), stopping=True)
    assert watch.ended() == "queued"
    assert fresh(run).checkpoints.exists()


def test_a_run_is_not_finished_before_its_journal_was_read_to_the_end(run: Run) -> None:
    run.folder.mkdir(parents=True)
    (run.folder / JOURNAL_FILE).write_bytes(b"rubbish\n")
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "failed"
    run = fresh(run)
    assert "line 1 is not an event" in run.journal_error
    assert "was not read to the end" in run.failure
    assert run.seq == 0
    call_command("import_journal", "--run", run.slug, "--skip-bad-lines")
    run = fresh(run)
    assert (run.state, run.failure, run.journal_error, run.iteration) == ("finished", "", "", 4)


def paused(run: Run) -> None:
    """Train the run until it is paused after its second iteration."""
    watch = Watch(run, "long")
    watch.until(lambda now: now.iteration >= 2)
    do_request(run, "pause")
    assert watch.ended() == "paused"
    do_request(run, "resume")


def test_a_journal_that_lost_its_end_is_rebuilt_and_trained_on(run: Run) -> None:
    paused(run)
    path = run.folder / JOURNAL_FILE
    lines, before, done = path.read_bytes().splitlines(keepends=True), fresh(run).seq, fresh(run).iteration
    path.write_bytes(b"".join(lines[:-7]) + lines[-7][:9])
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "finished"
    run = fresh(run)
    assert (run.journal_error, run.rebuilds, run.iteration) == ("", 1, max(4, done))
    assert run.notices.filter(message__contains=f"{before - len(lines) + 7} events before what had been shown").exists()
    assert_complete(run)


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_run_whose_folder_was_exchanged_while_paused_is_not_trained(run: Run, replaced: bool) -> None:
    paused(run)
    seq = fresh(run).seq
    shutil.rmtree(run.folder)
    if replaced:
        journal_builder.write(run.folder, *journal_builder.whole_run(9))
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "failed"
    run = fresh(run)
    assert "rebuild_run" in run.failure
    assert (run.seq, run.rebuilds) == (seq, 0), "what was shown stays"


def test_a_run_whose_folder_is_deleted_while_it_trains_fails(run: Run) -> None:
    watch = Watch(run, "long")
    watch.until(lambda now: now.iteration >= 1)
    shutil.rmtree(run.folder)
    assert watch.ended() == "failed"
    assert "is gone" in fresh(run).failure


def test_a_run_whose_folder_cannot_be_created_fails_with_a_reason(run: Run) -> None:
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    run.folder.write_text("in the way")
    assert supervise(take(run), command=act("train"), intervals=INTERVALS) == "failed"
    assert "could not be started" in fresh(run).failure
    run.folder.unlink()


def outside_supervisor(run: Run, scene: str) -> subprocess.Popen[bytes]:
    """A supervisor in a separate process, to be killed."""
    database = connection.settings_dict
    url = settings.DATABASE_URL.rsplit("/", 1)[0] + "/" + database["NAME"]
    program = (
        "import django; django.setup()\n"
        "from tests.webapp.worker.test_supervisor import act, take, INTERVALS\n"
        "from webapp.runs.models import Run\n"
        "from webapp.worker.supervisor import supervise\n"
        f"supervise(take(Run.objects.get(pk={run.pk})), command=act({scene!r}), intervals=INTERVALS)\n"
    )
    env = os.environ | {
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "DATABASE_URL": url,
        "REDIS_URL": settings.REDIS_URL,
        "ECHOSCOPE_DATA_DIR": str(settings.ECHOSCOPE_DATA_DIR),
    }
    return subprocess.Popen([sys.executable, "-c", program], env=env, start_new_session=True)


def test_after_kill_9_of_the_worker_the_trainer_ends_and_the_next_worker_continues(run: Run) -> None:
    victim = outside_supervisor(run, "long")
    wait_until(lambda: fresh(run).iteration >= 2)
    trainer = parent_guard.stale_trainer(RunFiles(run.folder).pid)
    assert trainer is not None
    victim.kill()
    victim.wait()
    Run.objects.filter(pk=run.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert actions.do_reap(timezone.now()) == 2  # freed, and its next worker gets a message
    watch = Watch(run, "long")
    watch.until(lambda now: now.attempt == 2 and now.iteration >= 4)
    assert parent_guard.stale_trainer(RunFiles(run.folder).pid) not in (None, trainer)
    do_request(run, "stop")
    assert watch.ended() == "stopped"
    assert_complete(fresh(run))


@pytest.fixture
def deaf_trainer(run: Run, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A trainer of the run that an earlier supervisor left, and that ignores SIGTERM."""
    run.folder.mkdir(parents=True)
    left = subprocess.Popen(
        [
            sys.executable,
            parent_guard.__file__,
            str(os.getpid()),
            str(RunFiles(run.folder).pid),
            "0",
            sys.executable,
            "-c",
            "import pathlib, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            "pathlib.Path(sys.argv[1]).touch(); time.sleep(600)",
            str(tmp_path / "deaf"),
        ],
        start_new_session=True,
    )
    wait_until((tmp_path / "deaf").exists)
    yield left
    left.kill()
    left.wait()


HURRIED = Intervals(tick=0.01, control=0.02, renew=0.1, orphan_timeout=0.2)


def test_an_orphaned_trainer_is_ended_before_another_one_writes(
    run: Run, deaf_trainer: subprocess.Popen[bytes]
) -> None:
    assert supervise(take(run), command=act("train"), intervals=HURRIED) == "finished"
    assert deaf_trainer.wait(10) == -signal.SIGKILL


def test_an_orphaned_trainer_is_ended_even_if_the_run_is_no_longer_allowed(
    run: Run, deaf_trainer: subprocess.Popen[bytes]
) -> None:
    Run.objects.filter(pk=run.pk).update(config=run.config | {"policy": {"model": "/etc"}})
    assert supervise(take(run), command=act("train"), intervals=HURRIED) == "failed"
    assert fresh(run).failure.startswith("This run is not allowed on this site: policy.model")
    assert deaf_trainer.poll() == -signal.SIGKILL


def test_a_run_that_is_no_longer_allowed_keeps_what_its_trainer_wrote_last(run: Run) -> None:
    taken = take(run)
    Run.objects.filter(pk=run.pk).update(config=run.config | {"policy": {"model": "/etc"}})
    taken.config = fresh(run).config
    *written, _ = journal_builder.whole_run(2)
    journal_builder.write(run.folder, *written)
    assert supervise(taken, command=act("train"), intervals=INTERVALS) == "failed"
    assert fresh(run).failure.startswith("This run is not allowed on this site: policy.model")
    assert_complete(fresh(run))


def test_a_process_with_a_reused_pid_is_not_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "trainer.pid"
    pid_file.write_text(f'{{"pid": {os.getpid()}, "born": "1", "host": "{os.uname().nodename}"}}')
    assert parent_guard.kill_stale_trainer(pid_file, 0) is False


def test_watched_thoughts_reach_the_channel_layer_during_generation(run: Run) -> None:
    messages: list[dict[str, object]] = []
    progress: list[dict[str, Any]] = []

    async def listen() -> None:
        layer = get_channel_layer()
        assert layer is not None
        channel = await layer.new_channel()
        await layer.group_add(run_group(run.slug), channel)
        client = token_subscriptions.redis.asyncio.Redis.from_url(settings.REDIS_URL)
        async with asyncio.timeout(SECONDS):
            while len(messages) < 2 or not progress:
                await token_subscriptions.subscribe(client, run.slug, "b")
                message = await layer.receive(channel)
                if message["type"] == "run.tokens":
                    messages.append(message)
                elif message["type"] == "run.progress":
                    progress.append(message["phase"])
        await client.aclose()

    watch = Watch(run, "talk")
    asyncio.run(listen())
    do_request(run, "stop")
    assert watch.ended() == "stopped"
    assert {message["trajectory"] for message in messages} == {"b"}
    assert (progress[0]["phase"], progress[0]["total"]) == ("update", 8), "and so does the progress of updates"
    assert len(str(messages[1]["text"])) > len(str(messages[0]["text"])) > 0


def helpers_of(run: Run) -> list[int]:
    """What the trainer of the run has started, which shares its tag."""
    noted = json.loads(RunFiles(run.folder).pid.read_text())
    return [pid for pid in parent_guard.tagged_processes(noted["mark"]) if pid != noted["pid"]]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_nothing_that_a_cancelled_trainer_started_outlives_it(run: Run) -> None:
    watch = Watch(run, "with helpers")
    watch.until(lambda now: now.iteration >= 1)
    assert len(helpers_of(run)) == 2
    do_request(run, "cancel")
    assert watch.ended() == "cancelled"
    wait_until(lambda: not helpers_of(run))


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_what_a_killed_trainer_started_is_ended_before_the_next_launch(run: Run) -> None:
    watch = Watch(run, "with helpers")
    watch.until(lambda now: now.iteration >= 1)
    os.kill(json.loads(RunFiles(run.folder).pid.read_text())["pid"], signal.SIGKILL)
    assert watch.ended() == "queued"
    wait_until(lambda: not helpers_of(run))
    assert fresh(run).crashes == 1


@pytest.mark.parametrize(
    ("sections", "processes"),
    [
        ({}, 2),
        ({"cluster": {"learners": 1}}, 1),
        ({"engine": {"name": "vllm"}, "cluster": {"resources": {"rollout_gpus": 2}}}, 1),
        ({"engine": {"name": "vllm", "tensor_parallel": 2}}, 1),
    ],
    ids=["pairs", "actors of the settings", "one engine over both", "the same in an earlier version"],
)
def test_processes_of_a_run_with_two_gpus(run: Run, sections: dict[str, Any], processes: int) -> None:
    run.config |= sections
    run.reserved = ["0", "1"]
    assert supervisor._processes(run) == processes


def test_the_number_of_gpus_is_an_option_of_the_trainer(tmp_path: Path) -> None:
    one, two = trainer_command(RunFiles(tmp_path)), trainer_command(RunFiles(tmp_path), processes=2)
    assert one[1:4] == ["-m", "trainer", "train"]
    assert two == [*one, "--processes", "2"]
