"""Whole runs of seconds: journal, stop and resume, reproducibility."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from envs.sokoban.sokoban_env import Sokoban
from tests.trainer import tiny
from tests.trainer.threads import THREADS
from trainer.config.run import PolicyConfig
from trainer.engines.sampler import DivergedError
from trainer.journal import reader
from trainer.journal.events import IterationTimeline, Metrics, RunFinished, RunStarted, Turn
from trainer.journal.protocol import CHECKPOINTS_FOLDER, JOURNAL_FILE
from trainer.learner.learner import Learner
from trainer.loops import run_factory
from trainer.loops.stages import checkpoints
from trainer.metrics.registry import get_spec
from trainer.policy.load import ModelError, load

ROOT = Path(__file__).parents[3]
CLOCKS = ("time/", "throughput/", "system/", "cluster/")


def run(config, folder, **extra):
    return run_factory.run(config, folder, folder / "cache", **extra)


def events(folder, kind=None):
    found = list(reader.read(folder / JOURNAL_FILE))
    return [event for event in found if kind is None or isinstance(event, kind)]


def weights(folder):
    """The final checkpoint's weights."""
    return load_file(checkpoints.get_path(folder, checkpoints.checkpoint_iterations(folder)[-1]) / "model.safetensors")


def numbers(folder):
    """The last metrics of every iteration and kind, without timings."""
    found = {}
    for event in events(folder, Metrics):
        values = {name: value for name, value in event.values.items() if not name.startswith(CLOCKS)}
        found[event.iteration, any(name.startswith("eval/") for name in values)] = (event.tokens, values)
    return found


def dialogues(folder):
    """Responses by trajectory, of the last time it was played."""
    return {(turn.trajectory, turn.turn): (turn.state, turn.response, turn.logprob) for turn in events(folder, Turn)}


def same_weights(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def in_a_process(config, folder, *extra, **popen):
    """`python -m trainer train` as a child process, as the site starts it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "given.yaml"
    file.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    command = [sys.executable, "-m", "trainer", "train", "--config", str(file), "--out", str(folder), *extra]
    environment = os.environ | {"OMP_NUM_THREADS": str(THREADS), "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen
    )


def count_turns(folder, iteration):
    """Number of the iteration's training turns in the journal so far."""
    path = folder / JOURNAL_FILE
    return path.read_bytes().count(b'"type":"turn","trajectory":"%05d-' % iteration) if path.exists() else 0


def wait_for_a_turn(process, folder, iteration):
    while not count_turns(folder, iteration):
        if process.poll() is not None:
            pytest.fail("the run ended first: " + "".join(process.communicate()))
        time.sleep(0.01)


@pytest.fixture(scope="module")
def finished(pocket_folder, tmp_path_factory):
    """A run of three iterations with evaluations before, in the middle and after, and its folder."""
    folder = tmp_path_factory.mktemp("run")
    config = tiny.config(
        pocket_folder,
        iterations=3,
        algorithm={"estimator": "gae", "kl_coef": 0.01, "group_filter": "std", "group_filter_keep": 0.5},
        evaluation={"every": 2},
    )
    return config, folder, run(config, folder)


def test_a_timeline_accounts_for_the_time_of_every_iteration(finished):
    _, folder, _ = finished
    laps = events(folder, IterationTimeline)
    assert [(lap.part, lap.iteration) for lap in laps] == [("start", 0), *(("iteration", n) for n in (1, 2, 3))]
    assert {kind for span in laps[0].tracks["trainer"] for kind in span.work} == {"load", "evaluate"}
    measured = {event.iteration: event.values for event in events(folder, Metrics) if "time/rollout" in event.values}
    for lap in laps[1:]:
        work = {track: total_work(spans) for track, spans in lap.tracks.items()}
        phases = ["rollout", "update", *["evaluate"] * (lap.iteration >= 2), "checkpoint"]
        assert list(work["trainer"]) == phases
        for phase in ("rollout", "update"):
            assert work["trainer"][phase] == pytest.approx(measured[lap.iteration][f"time/{phase}"], abs=2e-3)
        assert work["player"].keys() == {"sampling", "environment"}
        assert work["learner"].keys() >= {"prepare", "reference", "values", "step", "weights"}
        assert sum(work["learner"].values()) <= work["trainer"]["update"] + 2e-3
        for track, kinds in work.items():
            assert sum(kinds.values()) <= lap.seconds * 1.02 + 2e-3, track
        assert all(span.start + span.seconds <= lap.seconds + 2e-3 for span in lap.tracks["trainer"])


def total_work(spans):
    """Seconds of each kind of work, in the order in which they began."""
    total = {}
    for span in spans:
        for kind, seconds in span.work.items():
            total[kind] = total.get(kind, 0.0) + seconds
    return total


def test_a_journal_records_the_run_in_order(finished):
    _, folder, end = finished
    recorded = events(folder)
    assert [event.seq for event in recorded] == list(range(1, len(recorded) + 1))
    assert [event.time for event in recorded] == sorted(event.time for event in recorded)
    milestones = [
        (event.type, getattr(event, "iteration", None))
        for event in recorded
        if event.type in ("run_started", "groups_scored", "metrics", "evaluation", "checkpoint", "run_finished")
    ]
    evaluation_run = [[("evaluation", n), ("metrics", n)] for n in (0, 2, 3)]
    learn = [[("groups_scored", n), ("metrics", n)] for n in (1, 2, 3)]
    saved = [[("checkpoint", n)] for n in (1, 2, 3)]
    expected = [
        ("run_started", None),
        *evaluation_run[0],
        *learn[0],
        *saved[0],
        *learn[1],
        *evaluation_run[1],
        *saved[1],
    ]
    assert milestones == [*expected, *learn[2], *evaluation_run[2], *saved[2], ("run_finished", 3)]
    assert recorded[-1] == end
    assert {event.type for event in recorded} == {
        "run_started",
        "phase",
        "group_started",
        "turn",
        "trajectory_finished",
        "trajectory_tokens",
        "groups_scored",
        "attempts_used",
        "faults",  # an untrained policy never writes a valid answer
        "metrics",
        "evaluation",
        "checkpoint",
        "checkpoint_removed",
        "timeline",
        "run_finished",
    }


def test_every_trajectory_is_started_played_and_finished_once(finished):
    config, folder, _ = finished
    open_, turns, closed = {}, {}, []
    for event in events(folder):
        match event.type:
            case "group_started":
                for member in event.members:
                    assert member not in open_
                    open_[member], turns[member] = event, 0
            case "turn":
                assert event.turn == turns[event.trajectory]
                turns[event.trajectory] += 1
                assert event.reward == pytest.approx(sum(event.terms.values()))
            case "trajectory_finished":
                assert event.turns == turns[event.trajectory]
                closed.append(event.trajectory)
    assert sorted(closed) == sorted(open_)
    assert len(closed) == 3 * config.rollout.trajectories + 3 * config.evaluation.prompts


def test_the_training_uses_of_an_iteration_add_up_to_its_attempts(finished):
    config, folder, _ = finished
    recorded = events(folder)
    values = {
        event.iteration: event.values for event in recorded if "filter/kept_share" in getattr(event, "values", ())
    }
    used = [event for event in recorded if event.type == "attempts_used"]
    assert [event.iteration for event in used] == [1, 2, 3]
    for event in used:
        counted = {name: value for name, value in values[event.iteration].items() if name.startswith("attempts/")}
        assert sum(event.counts.values()) == sum(counted.values()) == config.rollout.trajectories
        assert counted["attempts/trained"] == event.trained > 0


def test_metrics_have_known_names_and_finite_values(finished):
    _, folder, _ = finished
    for event in events(folder, Metrics):
        for name, value in event.values.items():
            assert get_spec(name) is not None
            assert math.isfinite(value)
    learnt = [event.values for event in events(folder, Metrics) if "reward/mean" in event.values]
    for name in (
        "reward/in_group_std",
        "success/rate",
        "format/valid_rate",
        "entropy/mean",
        "policy/loss",
        "policy/grad_norm",
        "policy/kl_to_initial",
        "value/loss",
        "length/response",
        "turns/mean",
        "filter/kept_share",
        "mismatch/k3",
        "reasoning/mutual_information",
        "throughput/tokens_per_second",
        "time/rollout",
        "time/update",
    ):
        assert all(name in values for values in learnt), name
    assert all(values["mismatch/k3"] < 1e-6 for values in learnt)
    assert [event.tokens for event in events(folder, Metrics)] == sorted(e.tokens for e in events(folder, Metrics))


def test_phases_name_the_iteration_they_belong_to(finished):
    _, folder, _ = finished
    phases = [(event.phase, event.iteration) for event in events(folder) if event.type == "phase"]
    for iteration in (1, 2, 3):
        assert ("rollout", iteration) in phases
        assert ("update", iteration) in phases
    assert phases[0] == ("load", 0)


def test_old_checkpoints_are_deleted_and_the_last_loads_as_an_ordinary_model(finished):
    _, folder, _ = finished
    assert checkpoints.checkpoint_iterations(folder) == [2, 3]
    policy = load(checkpoints.get_path(folder, 3), PolicyConfig())
    assert policy.tokenizer.chat_template
    removed = [event.iteration for event in events(folder) if event.type == "checkpoint_removed"]
    assert removed == [1]


def test_evaluations_are_identical_each_time(finished):
    _, folder, _ = finished
    seeds, states = {}, {}
    for event in events(folder):
        if event.type == "group_started" and event.split == "eval":
            seeds.setdefault(event.iteration, []).append(event.seed)
            states.setdefault(event.iteration, []).append(event.board)
    assert list(seeds) == [0, 2, 3]
    assert seeds[0] == seeds[2] == seeds[3]
    assert states[0] == states[2] == states[3]
    train = [e.seed for e in events(folder) if e.type == "group_started" and e.split == "train"]
    assert len(set(train)) == len(train)


def test_resuming_a_finished_run_does_nothing(finished, tmp_path):
    config, folder, _ = finished
    copy = shutil.copytree(folder, tmp_path / "copy")
    end = run(config, copy)
    assert end.reason == "completed"
    started = events(copy, RunStarted)
    assert [(event.attempt, event.from_iteration, event.evaluated_iteration) for event in started] == [
        (1, 0, -1),
        (2, 3, 3),
    ]
    same_weights(weights(copy), weights(folder))


@pytest.mark.nightly
def test_the_same_settings_give_identical_runs_in_different_processes(llama_folder, tmp_path):
    config = tiny.config(llama_folder, evaluation={"prompts": 2})
    child = in_a_process(config, tmp_path / "there")
    run(config, tmp_path / "here")
    out, error = child.communicate(timeout=300)
    assert child.returncode == 0, out + error
    assert dialogues(tmp_path / "there") == dialogues(tmp_path / "here")
    assert numbers(tmp_path / "there") == numbers(tmp_path / "here")
    same_weights(weights(tmp_path / "there"), weights(tmp_path / "here"))


@pytest.fixture(scope="module")
def whole(llama_folder, tmp_path_factory):
    """The settings of a run that others interrupt, and the folder of its uninterrupted run."""
    config = tiny.config(
        llama_folder,
        iterations=3,
        rollout={"group_size": 6, "max_turns": 3},
        algorithm={"estimator": "gae", "kl_coef": 0.01},
        evaluation={"every": 1, "prompts": 3},
        checkpoint={"every": 2},
    )
    folder = tmp_path_factory.mktemp("whole")
    run(config, folder)
    return config, folder


def test_a_run_stopped_in_a_rollout_equals_an_uninterrupted_one(whole, tmp_path):
    (config, unbroken), (iteration, turns) = whole, (2, 4)
    end = run(config, tmp_path / "halves", stop=lambda: count_turns(tmp_path / "halves", iteration) > turns)
    assert (end.reason, end.iteration) == ("interrupted", iteration - 1)
    assert checkpoints.checkpoint_iterations(tmp_path / "halves")[-1] == iteration - 1
    again = run(config, tmp_path / "halves")
    assert again.reason == "completed"
    assert numbers(tmp_path / "halves") == numbers(unbroken)
    same_weights(weights(tmp_path / "halves"), weights(unbroken))
    halves, unbroken_end = (checkpoints.load_progress(f, 3) for f in (tmp_path / "halves", unbroken))
    for progress in (halves, unbroken_end):
        series = progress.echo_trap["faults"]["series"]
        progress.echo_trap["faults"] = {name: series[name] for name in series if not name.startswith(CLOCKS)}
    assert halves.echo_trap == unbroken_end.echo_trap
    assert again.summary["success_before"] == events(unbroken, RunFinished)[0].summary["success_before"]


@pytest.mark.nightly
def test_sigterm_in_a_rollout_checkpoints_and_a_new_process_resumes_identically(whole, tmp_path):
    config, unbroken = whole
    halves = tmp_path / "halves"
    child = in_a_process(config, halves)
    wait_for_a_turn(child, halves, 2)
    child.send_signal(signal.SIGTERM)
    out, error = child.communicate(timeout=300)
    assert child.returncode == 75, out + error
    assert all("Of the first" in line for line in error.splitlines()), "nothing but the notice of first contact"
    recorded = events(halves)
    assert recorded[-1].type == "run_finished"
    assert (recorded[-1].reason, recorded[-1].iteration) == ("interrupted", 1)
    assert recorded[-1].message == "Stopped after iteration 1; resume continues at 2."
    assert run(config, halves).reason == "completed"
    assert numbers(halves) == numbers(unbroken)
    same_weights(weights(halves), weights(unbroken))


@pytest.mark.nightly
def test_a_killed_run_with_a_partial_line_resumes_from_its_checkpoint(whole, tmp_path):
    config, unbroken = whole
    folder = tmp_path / "killed"
    child = in_a_process(config, folder)
    wait_for_a_turn(child, folder, 3)
    child.kill()
    child.communicate(timeout=300)
    left = sum(1 for _ in reader.read(folder / JOURNAL_FILE))
    with (folder / JOURNAL_FILE).open("ab") as file:
        file.write(b'{"type":"turn","seq":' + str(left + 1).encode() + b',"trajectory":"000')
    (folder / CHECKPOINTS_FOLDER / ".000003.partial").mkdir()
    end = run(config, folder)
    assert end.reason == "completed"
    recorded = events(folder)
    assert [event.seq for event in recorded] == list(range(1, len(recorded) + 1))
    second = events(folder, RunStarted)[1]
    assert second.seq > left
    assert (second.attempt, second.from_iteration) == (2, 2)
    assert numbers(folder) == numbers(unbroken)
    same_weights(weights(folder), weights(unbroken))
    assert not list((folder / CHECKPOINTS_FOLDER).glob(".*"))


def test_changed_settings_are_detected_on_resume(pocket_folder, tmp_path):
    config = tiny.config(pocket_folder, iterations=1, evaluation={"prompts": 0})
    run(config, tmp_path)
    run(config.model_copy(update={"iterations": 2}), tmp_path)
    notices = [event.message for event in events(tmp_path) if event.type == "notice"]
    assert "The settings were changed since the last attempt." in notices
    assert checkpoints.checkpoint_iterations(tmp_path) == [1, 2]


def test_a_run_works_without_thoughts_in_the_prompt(pocket_folder, tmp_path):
    end = run(tiny.config(pocket_folder, iterations=1, rollout={"think": False}), tmp_path)
    assert end.reason == "completed"
    assert not any("<think>" in event.prompt for event in events(tmp_path) if event.type == "group_started")


class Broken(Sokoban):
    """Fails on every seventh step of the process."""

    steps = 0

    def step(self, action):
        Broken.steps += 1
        if Broken.steps % 7 == 0:
            raise OSError("the disk is gone")
        return super().step(action)


def test_a_persistently_failing_environment_does_not_end_the_run(pocket_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("envs.registry.make", lambda name, settings: Broken())
    monkeypatch.setattr("trainer.rollout.episode.parse_response", parse_as_left)
    end = run(tiny.config(pocket_folder, iterations=1), tmp_path)
    assert end.reason == "completed"
    closings = [event for event in events(tmp_path) if event.type == "trajectory_finished"]
    errors = [event.error for event in closings if event.error]
    assert set(errors) == {"the environment failed: OSError: the disk is gone"}
    assert all(event.end == "truncated" for event in closings if event.error)


def parse_as_left(response, *, think, max_actions):
    from trainer.rollout.response_parser import parse_response

    return parse_response(tiny.answer("Left", "Left"), think=True, max_actions=max_actions)


def test_a_model_that_cannot_be_loaded_ends_the_journal_with_the_reason(tmp_path):
    with pytest.raises(ModelError):
        run(tiny.config("/no/such/folder"), tmp_path)
    end = events(tmp_path)[-1]
    assert (end.type, end.reason) == ("run_finished", "error")
    assert end.message.startswith("policy.model: there is no folder '/no/such/folder'")


def test_diverged_weights_end_the_run_with_advice(pocket_folder, tmp_path, monkeypatch):
    config = tiny.config(pocket_folder, algorithm={"estimator": "reinforce_plus_plus"}, evaluation={"prompts": 0})
    update = Learner.update

    def spoil(learner, batch, iteration):
        metrics = update(learner, batch, iteration)
        with torch.no_grad():
            next(learner.policy.model.parameters()).fill_(float("nan"))
        return metrics

    monkeypatch.setattr(Learner, "update", spoil)
    with pytest.raises(DivergedError):
        run_factory.run(config, tmp_path, tmp_path / "cache")
    assert "smaller optimizer.policy_lr" in events(tmp_path)[-1].message


def test_a_journal_is_plain_json_lines(finished):
    _, folder, _ = finished
    for line in (folder / JOURNAL_FILE).read_bytes().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
