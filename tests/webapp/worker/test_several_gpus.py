"""A run with several GPUs of one worker: learners and rollout actors on a cluster that the trainer itself starts."""

from __future__ import annotations

import importlib.util
import json

import pytest
from django.utils import timezone

from tests.patience import SECONDS
from tests.trainer.threads import THREADS
from tests.webapp.conftest import People
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from trainer.journal import reader
from trainer.journal.protocol import JOURNAL_FILE
from webapp.runs.launch.creation import do_create_run
from webapp.runs.run_files import RunFiles
from webapp.trajectories.models import Turn
from webapp.worker import parent_guard
from webapp.worker.claims import do_claim_run
from webapp.worker.supervisor import Intervals, supervise

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]


@pytest.mark.nightly
def test_a_run_with_two_gpus_is_trained_by_two_learners_in_the_sandbox(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPUs are numbers here: on a machine without any, Ray's actors compute on the CPU."""
    monkeypatch.setenv("OMP_NUM_THREADS", str(THREADS))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = RunConfig.model_validate(
        {
            "iterations": 1,
            "environment": {"name": "Bandit"},
            "policy": {"device": "cpu", "threads": 1},
            "rollout": {"groups": 4, "group_size": 2, "max_turns": 1, "max_response_tokens": 16},
            "optimizer": {"mini_batch_trajectories": 4},
            "algorithm": {"estimator": "reinforce_plus_plus", "drop_zero_std": False},
            "evaluation": {"prompts": 0},
        }
    )
    run = do_create_run(people.team, people.owner, config)
    claimed = do_claim_run(run.pk, None, timezone.now(), ("0", "1"))
    outcome = supervise(claimed, intervals=Intervals(stop_timeout=SECONDS))
    assert outcome == "finished", RunFiles(run.folder).log.read_text()
    run.refresh_from_db()
    assert (run.state, run.iteration, run.attempt) == ("finished", 1, 1)
    (started,) = (one for one in reader.read(run.folder / JOURNAL_FILE) if isinstance(one, journal.RunStarted))
    assert started.config["cluster"]["learners"] == started.config["cluster"]["rollout_actors"] == 2
    assert Turn.objects.filter(trajectory__run=run).count() == 8
    assert not parent_guard.tagged_processes(json.loads(RunFiles(run.folder).pid.read_text())["mark"])
    assert run.config["cluster"]["learners"] == 0, "how many GPUs a worker has is no setting of the run"
