"""Phase events of real runs: the progress of updates, in the journal and over the live pipe."""

import json
import os

import pytest

from tests.trainer import tiny
from tests.trainer.loops.test_train import events, run
from trainer.journal.events import GroupsScored, Phase
from trainer.journal.protocol import LIVE_FD
from trainer.loops import reporter, train


@pytest.fixture
def pipe(monkeypatch):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    monkeypatch.setenv(LIVE_FD, str(writer))
    yield reader
    os.close(reader)
    os.close(writer)


def phases(folder, name):
    return [event for event in events(folder, Phase) if event.phase == name]


def test_the_updates_of_a_run_are_reported_to_their_end(pocket_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(reporter, "_LIVE_INTERVAL", 0.0)
    monkeypatch.setattr(reporter, "_UPDATE_INTERVAL", 0.0)
    config = tiny.config(
        pocket_folder,
        iterations=3,
        algorithm={"estimator": "gae", "updates_per_rollout": 2},
        optimizer={"mini_batch_trajectories": 3, "micro_batch_tokens": 700},
        evaluation={"every": 2},
    )
    monkeypatch.setattr(train, "TURN_THOUGHTS_EVERY", 2)
    run(config, tmp_path)
    scored = {event.iteration: event.groups for event in events(tmp_path, GroupsScored)}
    for iteration in (1, 2, 3):
        update = [event for event in phases(tmp_path, "update") if event.iteration == iteration]
        assert (update[0].update.stage, update[0].share, update[-1].share) == ("prepare", 0.0, 1.0)
        assert [event.share for event in update] == sorted(event.share for event in update)
        measured = [event for event in update[1:] if event.update.stage == "prepare"]
        assert [event.done for event in measured] == list(range(measured[0].total))
        assert (measured[0].total > 2) == (iteration in (1, 2)), "one thought of each group, and some of any turn"
        assert (measured[-1].share > 0) == (iteration > 1), "the first update shows how long it takes"
        steps = [event for event in update if event.update.stage == "step"]
        assert [event.update.pass_number for event in steps] == sorted(event.update.pass_number for event in steps)
        assert {event.update.pass_number for event in steps} == {1, 2}
        kept = {score.group for score in scored[iteration] if score.kept}
        assert set().union(*(event.update.groups for event in steps)) == kept
        for number in (1, 2):
            one = [event for event in steps if event.update.pass_number == number and event.update.groups]
            assert [event.done for event in one] == list(range(one[0].total))
    first, last = phases(tmp_path, "rollout")[0], phases(tmp_path, "update")[-1]
    assert first.eta_seconds is None
    assert first.iteration_shares is None
    assert 0 <= last.eta_low_seconds <= last.eta_seconds <= last.eta_high_seconds
    assert list(last.iteration_shares) == ["rollout", "update", "evaluate", "checkpoint"]
    resumed = phases(tmp_path, "checkpoint")[-1]
    assert resumed.eta_seconds is not None


def test_reports_between_two_events_go_to_the_live_pipe(pocket_folder, tmp_path, pipe, monkeypatch):
    monkeypatch.setattr(reporter, "_LIVE_INTERVAL", 0.0)
    monkeypatch.setattr(reporter, "_UPDATE_INTERVAL", 1e9)
    config = tiny.config(
        pocket_folder, iterations=1, algorithm={"estimator": "gae"}, optimizer={"mini_batch_trajectories": 2}
    )
    run(config, tmp_path)
    lines = [json.loads(line)["phase"] for line in os.read(pipe, 2**16).splitlines()]
    assert [line["share"] for line in lines] == sorted(line["share"] for line in lines)
    assert lines[-1]["share"] == 1.0
    assert {Phase.model_validate(line).update.stage for line in lines} <= {"prepare", "step"}
    kept = phases(tmp_path, "update")
    assert len(kept) <= 4, "one for each stage and pass"


def test_a_resumed_run_knows_its_pace_from_its_checkpoint(pocket_folder, tmp_path):
    config = tiny.config(pocket_folder, iterations=1)
    run(config, tmp_path)
    run(config.model_copy(update={"iterations": 3}), tmp_path)
    second = [event for event in phases(tmp_path, "rollout") if event.iteration == 2]
    assert second[0].eta_seconds is not None
