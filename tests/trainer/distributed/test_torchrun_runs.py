"""Runs of two processes: the journal of one, stop and resume, and the end when a process dies."""

import os
import re
import signal
import time

import pytest
import torch
import yaml

from tests.trainer import tiny
from tests.trainer.distributed.test_torchrun import torchrun
from tests.trainer.loops.test_train import dialogues, events, numbers, run, weights
from trainer.journal.events import Metrics, RunFinished, RunStarted
from trainer.loops.stages import checkpoints

LATEST = 600.0
ILL_CONDITIONED = {
    r"reasoning(_turns)?/(mutual_information|mi_zscore.*)": 0.01,
    r"reasoning(_turns)?/retrieval_accuracy.*": 1.0,
}
"""Bounds for differences between log-probabilities of a thought after several prompts. The prompt changes those of a
random policy by 3e-5 of 70, as much as weights that differ by 1e-5: the likeliest depends on the order of sums."""


def settings(model, **sections):
    optimizer = {"mini_batch_trajectories": 3, "micro_batch_tokens": 1024, "critic_lr": 1e-4}
    parts = {"optimizer": optimizer, "evaluation": {"prompts": 3}, "iterations": 3, "rollout": {"groups": 3}}
    return tiny.config(model, **(parts | sections))


@pytest.fixture
def begin():
    """Starts a run of two processes, which die with their launcher however the test ends."""
    launchers = []

    def begin(config, folder):
        given = folder.with_suffix(".yaml")
        given.write_text(yaml.safe_dump(config.model_dump(mode="json")))
        launchers.append(torchrun("-m", "trainer", "train", "--config", str(given), "--out", str(folder)))
        return launchers[-1]

    yield begin
    for launcher in launchers:
        launcher.kill()
        launcher.communicate()


def children(launcher):
    """Process ids by RANK, once both have started."""
    found = {}
    while len(found) < 2:
        assert launcher.poll() is None, launcher.stdout.read()
        found = {}
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
                if parent != launcher.pid:
                    continue
                with open(f"/proc/{pid}/environ", "rb") as file:
                    rank = next((part for part in file.read().split(b"\0") if part.startswith(b"RANK=")), None)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if rank is not None:
                found[int(rank[5:])] = int(pid)
        time.sleep(0.1)
    return found


def wait_until(launcher, folder, met):
    """Wait until the journal has an event."""
    deadline = time.monotonic() + LATEST
    while not any(met(event) for event in (events(folder) if (folder / "journal.jsonl").exists() else [])):
        assert launcher.poll() is None, launcher.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def responses(folder):
    """Tokens of a journal; the last bits of their probabilities depend on the other rows of the batch."""
    return {turn: spoken[:2] for turn, spoken in dialogues(folder).items()}


def near(some, others):
    assert some.keys() == others.keys()
    return max(float((some[name] - others[name]).abs().max()) for name in some)


@pytest.mark.parametrize("estimator, sharding", [("reinforce_plus_plus", "none"), ("gae", "full")])
def test_two_processes_play_and_learn_as_one(begin, llama_folder, tmp_path, estimator, sharding):
    algorithm = {"estimator": estimator, "drop_zero_std": False, "gamma": 0.9}  # so that equal rewards give a gradient
    config = settings(llama_folder, algorithm=algorithm, parallel={"sharding": sharding})
    launcher = begin(config, tmp_path / "two")
    run(config, tmp_path / "one")
    out, _ = launcher.communicate(timeout=LATEST)
    assert launcher.returncode == 0, out
    assert responses(tmp_path / "two") == responses(tmp_path / "one")
    steps = sum(event.values.get("update/steps", 0) for event in events(tmp_path / "two", Metrics))
    assert steps >= 5
    assert near(weights(tmp_path / "two"), weights(tmp_path / "one")) < 1e-5
    recorded = events(tmp_path / "two")
    assert [event.seq for event in recorded] == list(range(1, len(recorded) + 1))
    assert recorded[-1].reason == "completed"
    open_, turns, closed = set(), {}, []
    for event in recorded:
        match event.type:
            case "group_started":
                open_.update(event.members)
            case "turn":
                assert event.trajectory in open_
                assert event.turn == turns.get(event.trajectory, 0)
                turns[event.trajectory] = event.turn + 1
            case "trajectory_finished":
                assert event.turns == turns[event.trajectory]
                closed.append(event.trajectory)
            case "groups_scored" | "evaluation":
                assert sorted(closed) == sorted(open_), "all trajectories have ended when they are counted"
    single, pair = numbers(tmp_path / "one"), numbers(tmp_path / "two")
    assert pair.keys() == single.keys()
    for when, (tokens, values) in single.items():
        assert pair[when][0] == tokens
        assert pair[when][1].keys() == values.keys()
        for name, value in values.items():
            bound = next((bound for names, bound in ILL_CONDITIONED.items() if re.fullmatch(names, name)), 1e-5)
            assert pair[when][1][name] == pytest.approx(value, rel=1e-3, abs=bound), (when, name)


def test_a_stop_request_reaches_all_ranks_and_one_process_resumes(begin, llama_folder, tmp_path):
    config = settings(llama_folder, algorithm={"estimator": "gae"}, parallel={"sharding": "full"}, iterations=4)
    folder = tmp_path / "run"
    launcher = begin(config, folder)
    trainers = children(launcher)
    wait_until(launcher, folder, lambda event: event.type == "checkpoint")
    for pid in trainers.values():
        os.kill(pid, signal.SIGTERM)
    out, _ = launcher.communicate(timeout=LATEST)
    end = events(folder)[-1]
    assert (end.type, end.reason) == ("run_finished", "interrupted"), out
    assert "exitcode  : 75" in out
    done = checkpoints.checkpoint_iterations(folder)[-1]
    assert end.iteration == done < 4
    assert run(config, folder).reason == "completed"
    assert [event.from_iteration for event in events(folder, RunStarted)] == [0, done]
    run(config, tmp_path / "unbroken")
    assert responses(folder) == responses(tmp_path / "unbroken")
    assert near(weights(folder), weights(tmp_path / "unbroken")) < 1e-4


def test_a_process_that_dies_ends_the_run_with_the_reason(begin, llama_folder, tmp_path):
    config = settings(llama_folder, iterations=1000, algorithm={"estimator": "gae", "drop_zero_std": False})
    folder = tmp_path / "run"
    launcher = begin(config, folder)
    trainers = children(launcher)
    wait_until(launcher, folder, lambda event: event.type == "metrics" and "policy/loss" in event.values)
    os.kill(trainers[1], signal.SIGKILL)
    out, _ = launcher.communicate(timeout=LATEST)
    assert launcher.returncode != 0
    (end,) = events(folder, RunFinished)
    assert end.reason == "error", out
    assert end.message.startswith("process 1 of 2 was lost")
    assert all(not os.path.exists(f"/proc/{pid}") for pid in trainers.values())


def test_settings_unsupported_by_several_processes_are_refused_with_alternatives(monkeypatch):
    from trainer.distributed import torchrun as parallel
    from trainer.policy.load import ModelError

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(parallel, "_die_with_parent", lambda: None)
    for sections, advice in (
        ({"lora": {"rank": 4}}, r"Set\s+parallel\.sharding to none"),
        ({"optimizer": {"name": "adafactor"}}, "choose adamw, adamw_fused, muon or sgd"),
    ):
        with pytest.raises(ModelError, match=advice):
            parallel.join_group(tiny.config("x", parallel={"sharding": "full"}, **sections))


def test_gradients_are_reduced_in_bounded_buckets_of_one_type():
    from trainer.distributed.collectives import buckets

    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in (2**23, 2**23, 1, 5)]
    parameters.append(torch.nn.Parameter(torch.zeros(3, dtype=torch.bfloat16)))
    sizes = [[parameter.numel() for parameter in bucket] for bucket in buckets(parameters)]
    assert sizes == [[2**23, 2**23], [1, 5], [3]]
