"""Sampler processes of several threads and workers with one data folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings

from tests.patience import wait_until
from tests.webapp.worker.computations.test_question_thread import says
from webapp.runs.models import Run, Worker
from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.worker.computations.attempt_folder import find_weights
from webapp.worker.computations.evaluation_thread import EvaluationAnswers
from webapp.worker.computations.question_thread import QuestionAnswers
from webapp.worker.computations.warm_samplers import WarmSamplers

pytestmark = pytest.mark.django_db(transaction=True)


def test_processes_with_the_same_weights_leave_each_other_alone(finished: Run, worker: Worker) -> None:
    weights, data = find_weights(finished, 2), Path(settings.ECHOSCOPE_DATA_DIR)
    assert weights is not None
    kinds = (QuestionAnswers, EvaluationAnswers, QuestionAnswers)  # the last as of a second worker
    loops = [WarmSamplers(UntrustedFolder(data / kind.FOLDER), says("pass")) for kind in kinds]
    try:
        warm = [loop.get(finished, weights, 1, lambda: None) for loop in loops]
        wait_until(lambda: all(sampler.process.files.pid.exists() for sampler in warm))
        QuestionAnswers("a worker that starts", says("pass")).clean()
        for sampler in warm:
            assert sampler.process.exit_status() is None
            assert sampler.inside.path.exists()
    finally:
        for loop in loops:
            loop.close()
    (lost := data / QuestionAnswers.FOLDER / "lost").mkdir()
    QuestionAnswers("a worker that starts", says("pass")).clean()
    assert not lost.exists()
