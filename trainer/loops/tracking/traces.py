"""Trajectories as OpenTelemetry traces, with the attributes of OpenInference.

A trajectory is a trace: an AGENT span with an LLM span for each turn. Names of attributes:
https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from trainer.journal.events import GroupStarted, RunFinished, TrajectoryFinished, Turn
from trainer.loops.tracking.dialogues import Dialogues, TrackedDialogue
from trainer.loops.tracking.tracker import PROJECT, TrackedRun, Tracker

_MAX_QUEUE = 8192
"""Maximum number of spans that wait for the receiver; if it is slow, the oldest are dropped."""
_FLUSH_TIMEOUT = 10_000  # milliseconds
_DEFAULT_ENDPOINT = "http://localhost:4318"


class _CountingExporter:
    """The exporter of OTLP over HTTP, which only logs its failures; this wrapper counts them."""

    def __init__(self, exporter: Any, success: Any) -> None:
        self.exporter, self.success = exporter, success
        self.failures = 0

    def export(self, spans: Sequence[Any]) -> Any:
        result = self.exporter.export(spans)
        self.failures += result is not self.success
        return result

    def shutdown(self) -> None:
        self.exporter.shutdown()

    def force_flush(self, timeout_millis: int = _FLUSH_TIMEOUT) -> bool:
        return bool(self.exporter.force_flush(timeout_millis))


class OpenTelemetry(Tracker):
    """A receiver of OTLP over HTTP (protobuf), such as a collector, Phoenix, Langfuse or Jaeger.

    The variables of the standard decide the destination and the share: OTEL_EXPORTER_OTLP_ENDPOINT,
    OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER, … Spans are sent in batches by a thread of the library.
    """

    def __init__(self, place: TrackedRun) -> None:
        self.id = place.id
        self.dialogues = Dialogues()
        policy, rollout = place.config.get("policy", {}), place.config.get("rollout", {})
        self.model = str(place.config.get("hosted", {}).get("model") or policy.get("model", ""))
        self.temperatures = {
            "train": rollout.get("temperature"),
            "eval": place.config.get("evaluation", {}).get("temperature"),
        }
        trace, export = import_module("opentelemetry.sdk.trace"), import_module("opentelemetry.sdk.trace.export")
        otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        self.api, self.context = import_module("opentelemetry.trace"), import_module("opentelemetry.context")
        described = {
            "service.name": os.environ.get("OTEL_SERVICE_NAME", PROJECT),
            "openinference.project.name": os.environ.get("OTEL_SERVICE_NAME", PROJECT),
            "echoscope.run.id": place.id,
            "echoscope.run.title": place.title,
        }
        resource = import_module("opentelemetry.sdk.resources").Resource.create(described)
        self.exporter = _CountingExporter(otlp.OTLPSpanExporter(), export.SpanExportResult.SUCCESS)
        self.provider = trace.TracerProvider(resource=resource, shutdown_on_exit=False)
        self.provider.add_span_processor(export.BatchSpanProcessor(self.exporter, max_queue_size=_MAX_QUEUE))
        self.tracer = self.provider.get_tracer("echoscope")

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        """Ignore metrics, which go to the other trackers."""

    def dialogue(self, event: GroupStarted | Turn | TrajectoryFinished) -> None:
        """Collect the turns of trajectories; the end of one creates its trace."""
        if finished := self.dialogues.add(event):
            self._trace(*finished)
            self._report_failures()

    def finish(self, end: RunFinished | None) -> None:
        """Send pending spans. Incomplete trajectories have no trace."""
        self.dialogues.clear()
        complete = self.provider.force_flush(_FLUSH_TIMEOUT)
        self.provider.shutdown()
        self._report_failures()
        if not complete:
            raise TimeoutError(f"the receiver of traces did not take the last spans within {_FLUSH_TIMEOUT // 1000} s")

    def _report_failures(self) -> None:
        failures, self.exporter.failures = self.exporter.failures, 0
        if failures:
            raise ConnectionError(f"{endpoint()} did not accept traces; the trainer's log has its answer")

    def _trace(self, dialogue: TrackedDialogue, end: TrajectoryFinished) -> None:
        group, turns = dialogue.group, dialogue.turns
        root = self.tracer.start_span(
            f"{group.environment} trajectory",
            context=self.context.Context(),  # a separate trace, even within another one
            start_time=_nanoseconds(group.time),
            attributes=self._agent_attributes(dialogue, end),
        )
        inside = self.api.set_span_in_context(root, self.context.Context())
        began = group.time
        for turn in turns:
            span = self.tracer.start_span(
                f"turn {turn.turn + 1}",
                context=inside,
                start_time=_nanoseconds(began),
                attributes=self._turn_attributes(turn, dialogue),
            )
            span.end(end_time=_nanoseconds(max(began, turn.time)))
            began = max(began, turn.time)
        if end.error is not None:
            root.set_status(self.api.Status(self.api.StatusCode.ERROR, end.error))
        root.end(end_time=_nanoseconds(max(began, end.time)))

    def _agent_attributes(self, dialogue: TrackedDialogue, end: TrajectoryFinished) -> dict[str, Any]:
        group, last = dialogue.group, dialogue.turns[-1] if dialogue.turns else None
        return {
            "openinference.span.kind": "AGENT",
            "agent.name": self.model,
            "input.value": group.prompt,
            "input.mime_type": "text/plain",
            "output.value": last.response if last else "",
            "output.mime_type": "text/plain",
            "session.id": f"{self.id}/{group.split}/{group.suite or ''}/{group.iteration}/{group.group}",
            "tag.tags": [group.environment, group.split, *([group.suite] if group.suite else [])],
            "metadata": json.dumps(dialogue.about(end), ensure_ascii=False),
            "echoscope.reward": end.total_reward,
            "echoscope.success": end.success,
            "echoscope.iteration": group.iteration,
        }

    def _turn_attributes(self, turn: Turn, dialogue: TrackedDialogue) -> dict[str, Any]:
        temperature = self.temperatures[dialogue.group.split]
        attributes: dict[str, Any] = {
            "openinference.span.kind": "LLM",
            "llm.model_name": self.model,
            "input.value": turn.state,
            "input.mime_type": "text/plain",
            "output.value": turn.response,
            "output.mime_type": "text/plain",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": dialogue.first_message(turn),
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": turn.response,
            "llm.token_count.completion": turn.tokens,
            "echoscope.reward": turn.reward,
            "echoscope.format_valid": turn.format_valid,
            "echoscope.actions": [action.name or action.text for action in turn.actions if action.status == "executed"],
        }
        attributes |= {f"echoscope.reward.{name}": value for name, value in turn.terms.items()}
        optional = {"echoscope.problem": turn.problem, "echoscope.entropy": turn.entropy}
        if temperature is not None:
            optional["llm.invocation_parameters"] = json.dumps({"temperature": temperature})
        return attributes | {name: value for name, value in optional.items() if value is not None}


def endpoint() -> str:
    """Return the address for traces, as the library reads it from its variables."""
    specific = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    general = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", _DEFAULT_ENDPOINT)
    return specific or f"{general.rstrip('/')}/v1/traces"


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
