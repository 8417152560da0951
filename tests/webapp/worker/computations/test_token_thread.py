"""Computation of tokens by a worker's thread: the real command, and processes that fail, hang or lie."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from tests.patience import wait_until
from tests.webapp.conftest import People
from tests.webapp.page_requests import logged_in
from trainer.journal import token_arrays
from trainer.journal.protocol import CHECKPOINTS_FOLDER
from webapp.ingest.rebuild import do_requested_rebuilds
from webapp.runs import worker_requests
from webapp.runs.models import Run, Worker
from webapp.runs.run_files import RunFiles
from webapp.teams.models import AuditEntry
from webapp.trajectories import token_computation
from webapp.trajectories.models import TokenArrays, TokenComputation, Trajectory
from webapp.trajectories.reading import Reading, get_reading
from webapp.worker.computations import computation_limits
from webapp.worker.computations.token_process import RESULT_FILE, Command, token_command
from webapp.worker.computations.token_thread import TokenComputations

pytestmark = pytest.mark.django_db(transaction=True)
State = TokenComputation.State
PARTIAL = {"trajectory": "a", "checkpoint": 2, "sampled_after": 2, "temperature": 1.0, "segments": [], "ids": []}
RESULT = PARTIAL | {"texts": [], "logprobs": [], "entropies": []}
SEGMENT = {"kind": "response", "turn": 900, "tokens": 1, "sampled": True, "in_loss": False, "restarts": False}


@pytest.fixture
def attempt(finished: Run) -> Trajectory:
    """An attempt of the last evaluation, whose tokens are not recorded."""
    found = Trajectory.objects.filter(run=finished, split="eval", iteration=2).select_related("group", "run").first()
    assert found is not None
    TokenArrays.objects.filter(trajectory=found).delete()
    return found


@pytest.fixture
def threads(worker: Worker) -> Iterator[Callable[..., TokenComputations]]:
    """Starts threads with a command, and ends them."""
    started: list[TokenComputations] = []

    def start(command: Command = token_command) -> TokenComputations:
        started.append(TokenComputations(worker.name, command, pace=0.02))
        started[-1].start()
        return started[-1]

    yield start
    for thread in started:
        thread.stop()


def act(code: str) -> Command:
    """A process that runs the code in the folder of the computation."""

    def command(files: RunFiles, trajectory: str, checkpoint: int) -> Sequence[str]:
        return [sys.executable, "-c", f"import os; os.chdir({str(files.folder)!r})\n{code}"]

    return command


def writes(result: object) -> Command:
    return act(f"open({RESULT_FILE!r}, 'w').write({json.dumps(result)!r})")


def state(attempt: Trajectory) -> str:
    return TokenComputation.objects.filter(trajectory=attempt).values_list("state", flat=True).first() or ""


def failure(attempt: Trajectory) -> str:
    wait_until(lambda: state(attempt) == State.FAILED)
    return TokenComputation.objects.get(trajectory=attempt).error


def test_the_real_command_gives_what_the_trainer_recorded(
    finished: Run, people: People, threads: Callable[..., TokenComputations]
) -> None:
    attempts = Trajectory.objects.filter(run=finished, split="eval", iteration=2).select_related("group", "run")
    attempt, before = next(
        (one, reading)
        for one in attempts
        if isinstance(reading := get_reading(one), Reading) and not reading.retokenised.any()
    )
    TokenArrays.objects.filter(trajectory=attempt).delete()
    token_computation.do_request_tokens(attempt, people.owner)
    threads()
    wait_until(lambda: not TokenComputation.objects.filter(state__in=TokenComputation.PENDING).exists())
    assert not TokenComputation.objects.exists(), TokenComputation.objects.values_list("error", flat=True)
    after = get_reading(attempt)
    assert isinstance(after, Reading)
    assert after.computed is not None
    assert (after.computed.checkpoint, after.computed.differing) == (2, ())
    assert np.array_equal(before.ids, after.ids)
    assert before.segments == after.segments
    assert "".join(before.texts) == "".join(after.texts).removesuffix("<|im_end|>")
    np.testing.assert_allclose(before.logprobs[before.sampled], after.logprobs[after.sampled], atol=4e-3)
    assert np.isnan(after.logprobs).sum() == 1, "prompts are scored as well"
    for unknown in (after.differences, after.ratios, after.advantages, after.shares):
        assert np.isnan(unknown).all()
    left = finished.folder.parents[1] / TokenComputations.FOLDER
    wait_until(lambda: not list(left.iterdir()))  # the folder goes after the answer is stored
    page = logged_in(people.owner).get(f"/t/{attempt.slug}/tokens").content.decode()
    assert "computed from the checkpoint of iteration 2, which sampled the attempt" in page


def test_a_second_request_starts_no_second_process(
    attempt: Trajectory, people: People, threads: Callable[..., TokenComputations]
) -> None:
    first = token_computation.do_request_tokens(attempt, people.owner)
    assert token_computation.do_request_tokens(attempt, people.owner) == first
    threads(act("open('started', 'a').write('x'); import time; time.sleep(60)"))
    jobs = attempt.run.folder.parents[1] / TokenComputations.FOLDER
    wait_until((jobs / attempt.slug / "started").exists)
    assert token_computation.do_request_tokens(attempt, people.owner) == first
    threads(writes(RESULT))
    assert not TokenArrays.objects.filter(trajectory=attempt).exists()
    assert (jobs / attempt.slug / "started").read_text() == "x"
    assert AuditEntry.objects.filter(details__computed_tokens=attempt.key).count() == 1
    token_computation.do_cancel_tokens(attempt)
    wait_until(lambda: not list(jobs.iterdir()))
    assert state(attempt) == ""


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (act("print('error: the memory of this machine ran out'); raise SystemExit(1)"), "the memory of this machine"),
        (act("raise SystemExit('odd')"), "failed with exit code 1: odd"),
        (act("os.kill(os.getpid(), 9)"), "ended by SIGKILL; perhaps the worker's memory was exhausted"),
        (act(""), "without a result that can be read"),
        (act(f"os.symlink('/etc/passwd', {RESULT_FILE!r})"), "without a result that can be read"),
        (act(f"os.mkfifo({RESULT_FILE!r})"), "without a result that can be read"),
        (writes("[]"), "is not valid"),
        (writes(RESULT | {"ids": [1]}), "the lists differ in length"),
        (writes(RESULT | {"segments": [SEGMENT | {"tokens": 10**7}]}), "less than or equal to 200000"),
        (
            writes(RESULT | {"segments": [SEGMENT], "ids": [1], "texts": [""], "logprobs": [0.0], "entropies": [0.0]}),
            "a token belongs to turn 900",
        ),
    ],
)
def test_what_goes_wrong_is_said_and_can_be_tried_again(
    command: Command, words: str, attempt: Trajectory, people: People, threads: Callable[..., TokenComputations]
) -> None:
    token_computation.do_request_tokens(attempt, people.owner)
    threads(command)
    assert words in failure(attempt)
    assert not TokenArrays.objects.filter(trajectory=attempt).exists()
    again = token_computation.do_request_tokens(attempt, people.owner)
    assert again is not None
    assert (again.state, again.error) == (State.QUEUED, "")


def test_time_and_memory_are_limited(
    attempt: Trajectory,
    people: People,
    threads: Callable[..., TokenComputations],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(computation_limits, "TIME_LIMIT", 0.5)
    token_computation.do_request_tokens(attempt, people.owner)
    thread = threads(act("import time; time.sleep(60)"))
    assert "took longer than 0 minutes" in failure(attempt)
    thread.stop()
    monkeypatch.setattr(computation_limits, "TIME_LIMIT", 60)
    monkeypatch.setattr(computation_limits, "LIMIT_INTERVAL", 0.1)
    monkeypatch.setenv("ECHOSCOPE_RUN_MEMORY_GB", "0.05")
    token_computation.do_request_tokens(attempt, people.owner)
    threads(act("hog = bytearray(200_000_000); import time; time.sleep(60)"))
    assert "Out of memory: the computation used 0." in failure(attempt)


def test_a_stopped_worker_gives_its_computation_back_and_lost_ones_are_taken_over(
    attempt: Trajectory, people: People, worker: Worker, threads: Callable[..., TokenComputations]
) -> None:
    token_computation.do_request_tokens(attempt, people.owner)
    thread = threads(act("import time; time.sleep(60)"))
    wait_until(lambda: state(attempt) == State.RUNNING)
    thread.stop()
    row = TokenComputation.objects.get(trajectory=attempt)
    assert (row.state, row.attempts) == (State.QUEUED, 0)
    for _ in range(worker_requests.MAX_ATTEMPTS):
        assert worker_requests.do_claim(row, worker)
        assert not worker_requests.do_claim(row, worker), "one at a time"
        TokenComputation.objects.update(seen_at=timezone.now() - timedelta(minutes=1))
    assert not worker_requests.do_claim(row, worker)
    assert "lost 3 times" in TokenComputation.objects.get(trajectory=attempt).error


def test_missing_files_are_said(
    attempt: Trajectory, people: People, worker: Worker, threads: Callable[..., TokenComputations]
) -> None:
    shutil.rmtree(attempt.run.folder / CHECKPOINTS_FOLDER)
    computation = token_computation.do_request_tokens(attempt, people.owner)
    threads()
    assert "No checkpoint of this run is kept: all have been deleted." in failure(attempt)
    shutil.rmtree(attempt.run.folder)
    token_computation.do_request_tokens(attempt, people.owner)
    assert "no longer on worker worker@here" in failure(attempt)
    Run.objects.update(data_folder="elsewhere")
    assert computation is not None
    token_computation.do_request_tokens(attempt, people.owner)
    waiting = TokenComputation.objects.select_related("trajectory__run").get(pk=computation.pk)
    assert "No running worker has the files of this run" in token_computation.status_text(waiting)
    Worker.objects.all().delete()
    assert "No worker is running" in token_computation.status_text(waiting)


def test_recorded_tokens_replace_computed_ones(attempt: Trajectory) -> None:
    packed = token_arrays.compressed(
        token_arrays.pack(token_arrays.arrays([1], [1], [1], [0.0], [0.0], None, "dropped"))
    )
    TokenArrays.objects.create(trajectory=attempt, data=packed, computed_from=2)
    Run.objects.filter(pk=attempt.run_id).update(rebuild_requested=True)
    assert do_requested_rebuilds() == 1
    assert TokenArrays.objects.get(trajectory=attempt).computed_from is None
