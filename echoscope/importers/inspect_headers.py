"""Headers of Inspect logs: the settings that a run records of them, its title, and the names of its suites."""

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
"""What Inspect writes for a task that has no model."""


@dataclass(frozen=True)
class InspectHeader:
    """Header of a log.

    Attributes:
        where: the file, or its record.
        described: `eval` of the log: task, model, their arguments, data set, configuration.
        beside: `plan` and `stats`, as far as the log has them.
    """

    where: str
    described: Mapping[str, Any]
    beside: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_log(cls, where: str, log: Mapping[str, Any]) -> InspectHeader:
        """Header of a whole log or of an archive's first member."""
        described = log.get("eval")
        beside = {name: log[name] for name in ("plan", "stats") if log.get(name)}
        return cls(where, described if isinstance(described, Mapping) else {}, beside)

    @property
    def task(self) -> str:
        """Name of the task; empty: the log has none."""
        return str(self.described.get("task") or "")

    @property
    def model(self) -> str:
        """Name of the policy; empty: the log has none."""
        model = str(self.described.get("model") or "")
        return "" if model in _NO_MODEL else model

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Arguments of the task."""
        arguments = self.described.get("task_args")
        return arguments if isinstance(arguments, Mapping) else {}

    def settings(self) -> dict[str, Any]:
        """Fields of `eval`, and beside them `plan` and `stats`, without those that are null or may hold keys."""
        settings: dict[str, Any] = _public({**self.described, **self.beside})
        return settings


class InspectHeaders:
    """Headers of all logs of an import."""

    def __init__(self, headers: Sequence[InspectHeader] = (), environment: str = "") -> None:
        """
        Args:
            environment: name of the task that the command gives; empty: as the logs have it.
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
        """Name of the environment of a log."""
        return self._environment or header.task or "Inspect"

    def suite(self, header: InspectHeader) -> str:
        """Name of the evaluation: the environment, and what differs from other logs of it, model or arguments."""
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
        """“task · model”; empty where the logs do not share them, or have neither."""
        names = {(self._environment or header.task, header.model) for header in self.headers}
        return " · ".join(part for part in names.pop() if part) if len(names) == 1 else ""

    def settings(self) -> dict[str, Any]:
        """Settings that all logs share, and the others of each log below `logs`; the longest are cut if need be."""
        every = {header.where: header.settings() for header in self.headers}
        if not every:
            return {}
        first = next(iter(every.values()))
        shared = {
            name: value
            for name, value in first.items()
            if all(name in one and one[name] == value for one in every.values())
        }
        own = {
            where: {name: value for name, value in one.items() if name not in shared} for where, one in every.items()
        }
        return shortened(shared | ({"logs": own} if any(own.values()) else {}))


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
