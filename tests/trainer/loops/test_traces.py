"""Traces of trajectories, sent to a real receiver of OTLP."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.loops.otlp_receiver import OtlpReceiver, receiving, values
from tests.webapp import recorded_journal as recorded
from trainer.config.files import load_preset, with_overrides
from trainer.config.run import RunConfig
from trainer.journal import reader
from trainer.journal.events import Event, Notice, RunFinished, TrajectoryFinished, Turn
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.writer import Journal
from trainer.loops import trackers


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    with receiving() as started:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", started.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
        yield started


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return with_overrides(load_preset("sokoban-pocket"), ["rollout.groups=2", "rollout.group_size=2", "iterations=1"])


def played(folder: Path, config: RunConfig, *, stop_after: int | None = None) -> list[Event]:
    """The journal of one iteration, sent to the tracker while it was written."""
    log = Journal(folder)
    trackers.attach(log, ["opentelemetry"], folder)
    log.write(recorded.started(config))
    for event in recorded.iteration(config, 1, 0.6, stop_after=stop_after):
        log.write(event)
    log.write(RunFinished(reason="completed", iteration=1, message="Done."))
    log.close()
    return list(reader.read(folder / JOURNAL_FILE))


def test_a_trajectory_is_a_trace_with_a_span_for_each_turn(
    tmp_path: Path, config: RunConfig, receiver: OtlpReceiver
) -> None:
    journal = played(tmp_path, config)
    assert not [event for event in journal if isinstance(event, Notice)]
    ends = {event.trajectory: event for event in journal if isinstance(event, TrajectoryFinished)}
    turns: dict[str, list[Turn]] = defaultdict(list)
    for event in journal:
        if isinstance(event, Turn):
            turns[event.trajectory].append(event)
    traces: dict[bytes, list[Any]] = defaultdict(list)
    for span in receiver.spans:
        traces[span.trace_id].append(span)
    assert len(traces) == len(ends) == 4
    assert receiver.resources[0]["service.name"] == "echoscope"
    assert receiver.resources[0]["openinference.project.name"] == "echoscope"
    for spans in traces.values():
        (root,) = [span for span in spans if not span.parent_span_id]
        agent = values(root.attributes)
        key = json.loads(agent["metadata"])["trajectory"]
        end = ends[key]
        assert agent["openinference.span.kind"] == "AGENT"
        assert (agent["echoscope.reward"], agent["echoscope.success"]) == (end.total_reward, end.success)
        assert agent["input.value"] == recorded.PROMPT
        assert agent["output.value"] == turns[key][-1].response
        assert agent["tag.tags"] == ["Sokoban", "train"]
        children = sorted((span for span in spans if span.parent_span_id), key=lambda span: span.start_time_unix_nano)
        assert len(children) == len(turns[key])
        for span, turn in zip(children, turns[key], strict=True):
            assert span.parent_span_id == root.span_id
            assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
            assert span.end_time_unix_nano <= root.end_time_unix_nano
            llm = values(span.attributes)
            assert llm["openinference.span.kind"] == "LLM"
            assert (llm["input.value"], llm["output.value"]) == (turn.state, turn.response)
            assert llm["llm.token_count.completion"] == turn.tokens
            assert llm["echoscope.reward"] == turn.reward
            assert llm["echoscope.reward.environment"] == turn.terms["environment"]
            assert llm["llm.model_name"] == "pocket"
            assert json.loads(llm["llm.invocation_parameters"]) == {"temperature": 1.0}
            assert llm["echoscope.actions"] == [a.name for a in turn.actions if a.status == "executed"]


def test_trajectories_that_were_not_played_to_their_end_have_no_trace(
    tmp_path: Path, config: RunConfig, receiver: OtlpReceiver
) -> None:
    journal = played(tmp_path, config, stop_after=1)
    ends = [event for event in journal if isinstance(event, TrajectoryFinished)]
    roots = [span for span in receiver.spans if not span.parent_span_id]
    assert len(roots) == len(ends) < 4


def test_a_share_of_the_trajectories_is_sent_as_a_whole(
    tmp_path: Path, config: RunConfig, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    played(tmp_path, config)
    assert receiver.spans == []


def test_a_receiver_that_refuses_is_reported_once_and_the_run_continues(
    tmp_path: Path, config: RunConfig, receiver: OtlpReceiver
) -> None:
    receiver.status = 400
    journal = played(tmp_path, config)
    (notice,) = [event.message for event in journal if isinstance(event, Notice)]
    assert notice.startswith(f"opentelemetry rejected an event: {receiver.url}/v1/traces did not accept traces")
    assert journal[-1].type == "notice" or isinstance(journal[-1], RunFinished)
    assert sum(isinstance(event, TrajectoryFinished) for event in journal) == 4


def test_a_missing_exporter_is_named_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> None:
        raise ModuleNotFoundError(name)  # as find_spec does where the package above is missing

    monkeypatch.setattr(trackers, "find_spec", find)
    with pytest.raises(trackers.MissingTrackerError, match="pip install opentelemetry-exporter-otlp-proto-http"):
        trackers.attach(Journal(tmp_path), ["opentelemetry"], tmp_path)
