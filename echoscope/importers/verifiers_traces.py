"""Traces of verifiers: rollouts as graphs of messages, single or several in an episode (a line of `traces.jsonl`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from echoscope.importers.records import TRACES, load_object, plain_name
from echoscope.recording.content_blocks import ConversationError
from echoscope.recording.conversation import POLICY_ROLES
from echoscope.recording.splits import Split

NODE_TENSORS = (
    "token_ids",
    "is_content",
    "logprobs",
    "advantages",
    "reference_logprobs",
    "trainer_logprobs",
    "entropies",
    "loss_weights",
    "routed_experts",
    "sampling_mask",
    "multi_modal_data",
)
"""Fields of a node with a value for each token, which the import does not read."""
_LIMITS = {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"}
"""Stop conditions by which verifiers counts a trace as truncated."""
_READ = {"nodes", "calls", "agent", "mm_token_type_id_map", "version", "verifiers"}


@dataclass(frozen=True)
class VerifiersTrace:
    """A rollout of one agent.

    Attributes:
        messages: messages of the paths from the roots to the leaves, path by path, each message once. The policy's
            messages name their path in `branch` if there are several.
        terms: weighted parts of the reward by name, without parts that were not scored.
        group: the same for attempts at the same task.
        step: training step at which it was started; None outside training.
        split: None if the trace does not say.
        tokens: sampled tokens; 0 if unknown.
        extra: all other fields, unchanged.
    """

    messages: list[dict[str, Any]]
    terms: Mapping[str, float]
    group: str = ""
    environment: str = ""
    agent: str = ""
    step: int | None = None
    split: Split | None = None
    tokens: int = 0
    truncated: bool = False
    error: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reward(self) -> float | None:
        """Sum of the terms; None if nothing was scored, or not with a finite number."""
        total = float(sum(self.terms.values())) if self.terms else math.nan
        return total if math.isfinite(total) else None


def is_trace(fields: Mapping[str, Any]) -> bool:
    """Return True if the fields are an episode's or a trace's."""
    return "task" in fields and any(isinstance(fields.get(name), list) for name in ("traces", "nodes"))


def read_traces(fields: Mapping[str, Any]) -> Iterator[VerifiersTrace]:
    """Yield the traces of an episode, or the trace itself.

    Raises:
        ConversationError: it has neither a message nor an error that says why, or its graph is broken.
    """
    if "nodes" in fields:
        yield _trace(fields, {}, several=False)
        return
    traces = [trace for trace in fields.get("traces") or () if isinstance(trace, Mapping)]
    if not traces:  # it failed before an agent began: only the task is known
        if not fields.get("errors"):
            raise ConversationError(f"the episode has no traces: its fields are {', '.join(map(str, fields))}")
        traces = [{"task": fields.get("task")}]
    names = {_object(trace.get("agent")).get("name") for trace in traces}
    for trace in traces:
        yield _trace(trace, fields, several=len(names) > 1)


def evaluation_settings(file: Path) -> dict[str, Any]:
    """Return the settings of the evaluation that wrote this file, without request headers, which may contain keys."""
    resolved = file.parent / "configs" / "resolved" / "eval.json"
    return _without_headers(load_object(resolved)) if plain_name(file) == TRACES else {}


def _trace(trace: Mapping[str, Any], episode: Mapping[str, Any], *, several: bool) -> VerifiersTrace:
    task, agent = _object(trace.get("task")), _object(trace.get("agent"))
    data = _object(task.get("data")) or task
    errors = trace.get("errors") or episode.get("errors") or ()
    error = _error(errors[-1]) if isinstance(errors, Sequence) and errors else ""
    nodes = _nodes(trace.get("nodes") or ())
    if not nodes and not error:
        raise ConversationError(f"the trace has no messages: its fields are {', '.join(map(str, trace))}")
    name = str(agent.get("name") or "")
    work = _object(_object(episode.get("run")).get("work"))
    split, step = _work(work or {"type": trace.get("kind"), "step": trace.get("eval_step")})
    other_fields = {key: value for key, value in trace.items() if key not in _READ and value not in (None, [], {})}
    return VerifiersTrace(
        messages=_messages(nodes) if nodes else _opening(data),
        terms=_terms(trace.get("rewards")),
        group=" · ".join(part for part in (_group(trace, episode, task, data), name if several else "") if part),
        environment=_environment(trace, episode),
        agent=name if several else "",
        step=step,
        split=split,
        tokens=_tokens(trace.get("calls"), nodes),
        truncated=bool(trace.get("is_timeout")) or trace.get("stop_condition") in _LIMITS or _cut(trace.get("calls")),
        error=error,
        extra=other_fields | ({"agent": _described(agent)} if agent else {}),
    )


def _nodes(nodes: Any) -> list[Mapping[str, Any]]:
    """Return the nodes, each with a message and with a parent before it. Raises ConversationError."""
    for number, node in enumerate(nodes):
        if not isinstance(node, Mapping) or not isinstance(node.get("message"), Mapping):
            raise ConversationError(f"node {number + 1} of the trace has no message")
        parent = node.get("parent")
        if parent is not None and not (isinstance(parent, int) and 0 <= parent < number):
            raise ConversationError(f"the parent of node {number + 1} of the trace is {parent!r}, not an earlier node")
    return list(nodes)


def _messages(nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    parents = {node.get("parent") for node in nodes}
    leaves = [number for number in range(len(nodes)) if number not in parents]
    messages: list[dict[str, Any]] = []
    seen: set[int] = set()
    for branch, leaf in enumerate(leaves, 1):
        path: list[int] = []
        at: int | None = leaf
        while at is not None and at not in seen:  # everything before it was read with an earlier path
            path.append(at)
            at = nodes[at].get("parent")
        seen.update(path)
        messages += [_message(nodes[number], branch if len(leaves) > 1 else 0) for number in reversed(path)]
    return messages


def _message(node: Mapping[str, Any], branch: int) -> dict[str, Any]:
    message = {name: value for name, value in node["message"].items() if name != "provider_state"}
    if message.get("role") not in POLICY_ROLES:
        return message
    if not node.get("sampled"):  # an example within the prompt: read by the policy, not written
        return {**message, "role": f"example of {message['role']}"}
    return {**message, "branch": branch} if branch else message


def _opening(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a task that no agent began."""
    prompt, system = data.get("prompt"), data.get("system_prompt")
    messages = list(prompt) if isinstance(prompt, list) else [{"role": "user", "content": prompt}] if prompt else []
    return [*([{"role": "system", "content": system}] if system else []), *messages]


def _terms(rewards: Any) -> dict[str, float]:
    """Return the weighted rewards by name. Raises ConversationError."""
    terms: dict[str, float] = {}
    for name, reward in _object(rewards).items():
        parts = reward if isinstance(reward, Mapping) else {"score": reward}
        if parts.get("score") is None:  # scoring did not run
            continue
        try:
            terms[str(name)] = float(parts["score"]) * float(parts.get("weight", 1.0))
        except (TypeError, ValueError):
            raise ConversationError(f"the reward {name} is {reward!r:.100}, not a score with its weight") from None
    return terms


def _group(
    trace: Mapping[str, Any], episode: Mapping[str, Any], task: Mapping[str, Any], data: Mapping[str, Any]
) -> str:
    candidates = (
        _object(episode.get("group")).get("id"),
        trace.get("group_id"),
        task.get("key"),
        task.get("hash"),
        data.get("idx"),
        data.get("id"),
    )
    return next((str(value) for value in candidates if value not in (None, "")), "")


def _environment(trace: Mapping[str, Any], episode: Mapping[str, Any]) -> str:
    env = _object(episode.get("env"))
    return str(env.get("id") or env.get("name") or trace.get("env_name") or "")


def _work(work: Mapping[str, Any]) -> tuple[Split | None, int | None]:
    """Return split and step in prime-rl's description; other kinds of work have none."""
    step = work.get("step")
    split: Split | None = "eval" if work.get("type") == "eval" else "train" if work.get("type") == "train" else None
    return split, int(step) if split is not None and isinstance(step, int) and step >= 0 else None


def _tokens(calls: Any, nodes: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of sampled tokens as counted by the provider, else by the masks of the nodes."""
    usages = [_object(_object(call).get("usage")) for call in calls or ()]
    counted = sum(int(usage.get("completion_tokens") or 0) for usage in usages)
    return counted or sum(sum(map(bool, node.get("mask") or ())) for node in nodes)


def _cut(calls: Any) -> bool:
    """Return True if the last response was cut off at its length."""
    last = next((call for call in reversed(calls or ()) if not _object(call).get("error")), None)
    return _object(last).get("finish_reason") == "length"


def _error(error: Any) -> str:
    parts = _object(error)
    return ": ".join(str(parts[name]) for name in ("type", "message") if parts.get(name)) or str(error)


def _described(agent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agent without its endpoint."""
    config = _object(agent.get("config"))
    kept = {"name": agent.get("name"), "trainable": agent.get("trainable")}
    kept |= {"model": config.get("model"), "sampling": config.get("sampling")}
    kept["harness"] = _object(config.get("harness")).get("id")
    return {name: value for name, value in kept.items() if value is not None}


def _without_headers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_headers(part) for name, part in value.items() if name != "headers"}
    return [_without_headers(part) for part in value] if isinstance(value, list) else value


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
