"""Runs with vLLM: the same learning as with transformers, and agreement of sampler and trainer."""

from __future__ import annotations

from statistics import fmean

import pytest

from trainer.config.files import load_preset
from trainer.config.run import RunConfig
from trainer.journal import reader
from trainer.journal.events import Metrics, Turn
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory


def settings(engine: str) -> RunConfig:
    """A small version of the demo's preset."""
    data = load_preset("sokoban-starpo_s-pocket").model_dump()
    data |= {"iterations": 3, "name": engine, "engine": data["engine"] | {"name": engine}}
    data["policy"] |= {"device": "cpu", "threads": 2}
    data["rollout"] |= {"groups": 6, "group_size": 4, "max_turns": 3}
    data["algorithm"] |= {"tis_cap": 2.0 if engine == "vllm" else None}
    data["evaluation"] |= {"prompts": 8, "every": 0}
    return RunConfig.model_validate(data)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By engine, the events of a run."""
    found = {}
    for engine in ("transformers", "vllm"):
        folder = tmp_path_factory.mktemp(engine)
        assert run_factory.run(settings(engine), folder, folder / "cache").reason == "completed"
        found[engine] = list(reader.read(folder / JOURNAL_FILE))
    return found


def values(events, name):
    return [event.values[name] for event in events if isinstance(event, Metrics) and name in event.values]


def test_sampler_and_trainer_agree_after_every_update(runs):
    found = values(runs["vllm"], "mismatch/k3")
    assert len(found) == 3
    assert max(found) < 1e-4
    assert max(values(runs["vllm"], "mismatch/clipped_fraction")) < 0.01


@pytest.mark.parametrize(
    "name, tolerance",
    [("format/valid_rate", 0.15), ("length/response", 6.0), ("success/rate", 0.3), ("entropy/mean", 0.1)],
)
def test_the_metrics_are_those_of_transformers_within_noise(runs, name, tolerance):
    own, theirs = (values(runs[engine], name) for engine in ("transformers", "vllm"))
    assert len(own) == len(theirs) > 0
    assert fmean(theirs) == pytest.approx(fmean(own), abs=tolerance)


def test_values_not_reported_by_vllm_are_absent_from_the_journal(runs):
    turns = [event for event in runs["vllm"] if isinstance(event, Turn)]
    assert turns
    assert all(turn.entropy is None and turn.logprob is not None for turn in turns)
