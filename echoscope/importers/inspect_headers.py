"""Headers of Inspect logs: the settings that a run records, its title, and the names of its suites."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from echoscope.recording.settings_size import shortened

MAX_SUITE = 100
_SECRET = re.compile(r"(.*[_-])?(api[_-]?key|headers|password|secret|(access|auth)[_-]token)", re.IGNORECASE)
_NO_MODEL = ("", "none", "none/none")
"""Names that Inspect writes for a task without a model."""


@dataclass(frozen=True)
class InspectHeader:
    """Header of a log.

    Attributes:
        where: the file, or its record.
        described: `eval` of the log: task, model, their arguments, data set, configuration.
        plan_and_stats: `plan` and `stats`, if the log has them.
    """

    where: str
    described: Mapping[str, Any]
    plan_and_stats: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_log(cls, where: str, log: Mapping[str, Any]) -> InspectHeader:
        """Return the header of a whole log or of an archive's first member."""
        described = log.get("eval")
        plan_and_stats = {name: log[name] for name in ("plan", "stats") if log.get(name)}
        return cls(where, described if isinstance(described, Mapping) else {}, plan_and_stats)

    @property
    def task(self) -> str:
        """Name of the task; empty if the log has none."""
        return str(self.described.get("task") or "")

    @property
    def model(self) -> str:
        """Name of the policy; empty if the log has none."""
        model = str(self.described.get("model") or "")
        return "" if model in _NO_MODEL else model

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Arguments of the task."""
        arguments = self.described.get("task_args")
        return arguments if isinstance(arguments, Mapping) else {}

    def settings(self) -> dict[str, Any]:
        """Fields of `eval`, and `plan` and `stats`, without fields that are null or may contain keys."""
        settings: dict[str, Any] = _public({**self.described, **self.plan_and_stats})
        return settings


class InspectHeaders:
    """Headers of all logs of an import."""

    def __init__(self, headers: Sequence[InspectHeader] = (), environment: str = "") -> None:
        """
        Args:
            environment: name of the task as given to the command; empty: use the names in the logs.
        """
        self.headers = list(headers)
        self._environment = environment
        self._variants: dict[str, list[InspectHeader]] = {}
        """Environment → one header for each model and arguments of the task."""
        for header in self.headers:
            variants = self._variants.setdefault(self.environment(header), [])
            if _variant(header) not in map(_variant, variants):
                variants.append(header)

    def environment(self, header: InspectHeader) -> str:
        """Return the name of the environment of a log."""
        return self._environment or header.task or "Inspect"

    def suite(self, header: InspectHeader) -> str:
        """Return the name of the evaluation: the environment, and the model or arguments if other logs of it differ."""
        name = self.environment(header)
        variants = self._variants.get(name, [])
        parts = [name]
        if len({other.model for other in variants}) > 1:
            parts.append(header.model or "no model")
        same = [other for other in variants if other.model == header.model]
        different = [
            key
            for key in sorted({key for other in same for key in other.arguments})
            if len({_text(other.arguments.get(key)) for other in same}) > 1
        ]
        if different:
            parts.append(", ".join(f"{key}={_text(header.arguments.get(key))}" for key in different))
        suite = " · ".join(parts)
        if len(suite) <= MAX_SUITE:
            return suite
        number = f" · {[_variant(other) for other in variants].index(_variant(header)) + 1}" if len(parts) > 1 else ""
        return suite[: MAX_SUITE - len(number)] + number

    def title(self) -> str:
        """Return “task · model”; empty if the logs differ in them or have neither."""
        names = {(self._environment or header.task, header.model) for header in self.headers}
        return " · ".join(part for part in names.pop() if part) if len(names) == 1 else ""

    def settings(self) -> dict[str, Any]:
        """Return the settings that all logs share, and others in `logs` for each log; the longest are cut if needed."""
        every = {header.where: header.settings() for header in self.headers}
        if not every:
            return {}
        first = next(iter(every.values()))
        shared = {
            name: value
            for name, value in first.items()
            if all(name in settings and settings[name] == value for settings in every.values())
        }
        log_settings = {
            where: {name: value for name, value in settings.items() if name not in shared}
            for where, settings in every.items()
        }
        return shortened(shared | ({"logs": log_settings} if any(log_settings.values()) else {}))


def _public(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            str(name): _public(part)
            for name, part in value.items()
            if part is not None and not _SECRET.fullmatch(str(name))
        }
    return [_public(part) for part in value] if isinstance(value, list) else value


def _variant(header: InspectHeader) -> str:
    return _text([header.model, header.arguments])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
