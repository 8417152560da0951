"""The reference pages docs/settings.md and docs/metrics.md, made from RunConfig and the table of metrics.

`python -m trainer.cli.reference_docs` rewrites them; a test fails when they are out of date.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from envs import registry
from trainer.config.run import RunConfig
from trainer.metrics.registry import METRICS, TERM_PREFIX, spec_of
from trainer.metrics.spec import SECTIONS, MetricSpec

DOCS = Path(__file__).parents[2] / "docs"
_FAMILIES = (
    f"{TERM_PREFIX}<term>",
    *(f"eval/<suite>/{what}" for what in ("success", "success_low", "success_high", "reward")),
    *(f"eval/<suite>/{what}" for what in ("turns", "actions", "response")),
)


def settings_page() -> str:
    """docs/settings.md."""
    parts = [
        "# Settings",
        "Everything that decides what a run does. The names are those of the YAML file, of `--set section.field=value` "
        "on the command line, of the launch form and of the API. Made by `python -m trainer.cli.reference_docs`.",
    ]
    sections = {name: field for name, field in RunConfig.model_fields.items() if _section(field)}
    rest = {name: field for name, field in RunConfig.model_fields.items() if name not in sections}
    parts += ["## The run", _settings_table(rest)]
    for name, field in sections.items():
        model = _section(field)
        assert model is not None
        parts += [f"## `{name}`", _first_line(model), _settings_table(model.model_fields)]
    parts += ["## Settings of the environments", "They stand under `environment.settings`."]
    for name in registry.BUILT_IN:
        model = registry.settings_model(name)
        if model.model_fields:
            parts += [f"### {name}", _settings_table(model.model_fields, with_source=False)]
    return "\n\n".join(parts) + "\n"


def metrics_page() -> str:
    """docs/metrics.md."""
    parts = [
        "# Metrics",
        "What is measured, under names that do not change: in `metrics` events of the [journal](journal.md), in curves "
        "and in the API. A value that cannot be computed is left out. Made by `python -m trainer.cli.reference_docs`.",
    ]
    passes = spec_of("eval/<suite>/pass@2")
    any_k = replace(
        passes, name="eval/<suite>/pass@k", title="<suite>: pass@k", meaning=passes.meaning.replace("2", "k")
    )
    families = [*map(spec_of, _FAMILIES), any_k]
    for section in SECTIONS:
        specs = [spec for spec in (*METRICS.values(), *families) if spec.section == section]
        rows = [_metric_row(spec) for spec in specs]
        parts += [f"## {section.capitalize()}", _table(("name", "title", "unit", "better", "meaning"), rows)]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Rewrite both pages."""
    for name, page in (("settings.md", settings_page()), ("metrics.md", metrics_page())):
        (DOCS / name).write_text(page, encoding="utf-8")


def _metric_row(spec: MetricSpec) -> tuple[str, ...]:
    better = {"up": "higher", "down": "lower", "none": ""}[spec.better]
    title, meaning = (text.replace("<", "‹").replace(">", "›") for text in (spec.title, spec.meaning))
    return f"`{spec.name}`", title, spec.unit, better, meaning


def _settings_table(fields: dict[str, FieldInfo], with_source: bool = True) -> str:
    header = ("setting", "default", "allowed", "unit", "meaning", "source")
    rows = []
    for name, field in fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        unit, source = str(extra.get("unit", "")), str(extra.get("source", ""))
        meaning = field.description or ""
        rows.append((f"`{name}`", _default(field), _allowed(field), unit, meaning, source))
    if not with_source:
        return _table(header[:-1], [row[:-1] for row in rows])
    return _table(header, rows)


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().split("\n", 1)[0]


def _default(field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None or value == "":
        return "empty"
    return f"`{value}`"


def _allowed(field: FieldInfo) -> str:
    """Choices or range, in words of the form."""
    if choices := _choices(field.annotation):
        return ", ".join(f"`{choice}`" for choice in choices)
    signs = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
    found = [
        f"{sign} {limit:,}"
        for name, sign in signs.items()
        for rule in field.metadata
        if (limit := getattr(rule, name, None)) is not None
    ]
    return ", ".join(found)


def _choices(kind: Any) -> tuple[str, ...]:
    return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(header)]
    lines.append(tuple("---" for _ in lines[0]))
    lines += [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
