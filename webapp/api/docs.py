"""API reference page, rendered from the OpenAPI document without scripts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.api.root import api

TITLES = {
    "runs": "Runs",
    "results": "Results of a run",
    "trajectories": "Trajectories",
    "branches": "Play on from any position",
    "exports": "Exports",
    "annotations": "Annotations",
    "shares": "Share links",
    "teams": "Teams",
    "alerts": "Alert rules",
    "studies": "Studies",
    "reports": "Reports",
    "journals": "Runs trained elsewhere",
    "catalogue": "Environments, presets, workers, caller",
}
BODIES = {
    "create_run": {"preset": "sokoban-starpo_s-pocket", "overrides": {"iterations": 20, "seed": 1}},
    "clone_run": {"overrides": {"seed": 2}},
    "control_run": {"action": "pause"},
    "change_settings": {"changes": {"optimizer.policy_lr": 5e-5}, "why": "the curve is shaky"},
    "ask_question": {"trajectory": "TRAJECTORY", "turn": 2, "samples": 16},
    "create_study": {"kind": "catalogue", "study": "figure-9", "scale": "pocket", "seeds": 3},
    "control_study": {"action": "pause"},
    "update_study": {"visibility": "link"},
    "create_comment": {"text": "Look at this turn.", "turn": 2},
    "update_comment": {"text": "Look at the turn before."},
    "create_alert": {"name": "Failures", "events": ["failed", "trapped"], "channel": "inbox"},
    "update_alert": {"enabled": False},
    "update_run": {"title": "Baseline, seed 1", "tags": ["baseline"]},
    "create_share": {"turn": 2, "expires_at": "2030-01-31T12:00:00Z"},
}
PLACES = {"token": "TOKEN", "name": "NAME", "iteration": "ITERATION", "tag": "TAG"}
SLUGS = {
    "alerts": "RULE",
    "branches": "QUESTION",
    "comments": "COMMENT",
    "reports": "REPORT",
    "runs": "RUN",
    "studies": "STUDY",
    "trajectories": "TRAJECTORY",
}
"""Placeholder of a slug, by the first part of the path after /api/."""
KINDS = {"reports": "markdown", "runs": "parquet", "studies": "csv", "trajectories": "json"}
"""Format of an export in the sample, by the same part."""


@dataclass(frozen=True)
class FieldRow:
    """A parameter, or a field of a schema."""

    name: str
    kind: str
    note: str
    required: bool = False
    place: str = ""


@dataclass(frozen=True)
class Operation:
    """An operation of the API."""

    id: str
    method: str
    path: str
    summary: str
    about: str
    parameters: list[FieldRow]
    body: str
    answers: list[tuple[str, str]]
    errors: list[str]
    sample: str


@dataclass(frozen=True)
class SchemaFields:
    """A schema with its fields."""

    name: str
    about: str
    rows: list[FieldRow]


@dataclass(frozen=True)
class ReferencePart:
    """A part of the reference: operations with the same tag, and the schemas that they use."""

    key: str
    title: str
    operations: list[Operation] = field(default_factory=list)
    shapes: list[SchemaFields] = field(default_factory=list)


@require_GET
def reference(request: HttpRequest) -> HttpResponse:
    """Show the list of all operations, and one part (`?part=`) with parameters, examples and schemas."""
    parts = contents()
    site = request.build_absolute_uri("/").rstrip("/")
    asked = request.GET.get("part", "")
    shown = next((part for part in parts if part.key == asked), parts[0])
    context = {"page": "api", "parts": parts, "shown": shown, "site": site, "about": api.description}
    return render(request, "api/reference.html", context)


@lru_cache
def contents() -> list[ReferencePart]:
    """Return the OpenAPI document in the order of the page."""
    document = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/")))
    parts = {key: ReferencePart(key, title) for key, title in TITLES.items()}
    schemas = document["components"]["schemas"]
    used: dict[str, set[str]] = {key: set() for key in parts}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            key = operation["tags"][0]
            parts[key].operations.append(_operation(method.upper(), path, operation))
            used[key] |= _references(operation, schemas, set())
    for key, names in used.items():
        parts[key].shapes.extend(
            SchemaFields(name, schemas[name].get("description", ""), list(_fields(schemas[name])))
            for name in sorted(names)
        )
    return list(parts.values())


def _references(value: Any, schemas: Mapping[str, Any], found: set[str]) -> set[str]:
    """Collect the names of the schemas that a part of the document refers to, directly or through other schemas."""
    if isinstance(value, Mapping):
        name = str(value.get("$ref", "")).rpartition("/")[2]
        if name and name not in found:
            found.add(name)
            _references(schemas[name], schemas, found)
        for inner in value.values():
            _references(inner, schemas, found)
    elif isinstance(value, list):
        for inner in value:
            _references(inner, schemas, found)
    return found


def _operation(method: str, path: str, spec: Mapping[str, Any]) -> Operation:
    parameters = [
        FieldRow(
            parameter["name"],
            kind(parameter["schema"]),
            _plain(parameter.get("description", "")),
            parameter.get("required", False),
            parameter["in"],
        )
        for parameter in spec.get("parameters", [])
    ]
    content = spec.get("requestBody", {}).get("content", {})
    body = ", ".join(dict.fromkeys(f"{kind(value['schema'])} as {media}" for media, value in content.items()))
    answers, errors = [], []
    for status, response in spec["responses"].items():
        if status >= "400":
            errors.append(status)
        else:
            kinds = (kind(value["schema"]) for value in response.get("content", {}).values())
            answers.append((status, next(kinds, response["description"])))
    return Operation(
        id=spec["operationId"],
        method=method,
        path=path,
        summary=spec["summary"],
        about=_plain(spec.get("description", "")),
        parameters=parameters,
        body=body,
        answers=answers,
        errors=errors,
        sample=_sample(method, path, spec, content),
    )


def _sample(method: str, path: str, spec: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """Return a curl command for the operation; the site's address is a variable."""
    first = path.split("/")[2]
    for name, example in {**PLACES, "slug": SLUGS.get(first, ""), "kind": KINDS.get(first, "")}.items():
        path = path.replace(f"{{{name}}}", example)
    needed = [p["name"] for p in spec.get("parameters", []) if p["in"] == "query" and p.get("required")]
    values = {"name": "reward/mean", "offset": "0", "confirm": "RUN", "run": "RUN", "suite": "Sokoban"}
    query = "&".join(f"{name}={values[name]}" for name in needed)
    options = [] if method == "GET" else [f"-X {method}"]
    options.append('-H "Authorization: Bearer $ECHOSCOPE_TOKEN"')
    if spec["operationId"] in BODIES:
        options.append('-H "Content-Type: application/json"')
        options.append(f"-d {shlex.quote(json.dumps(BODIES[spec['operationId']]))}")
    elif content:
        options.append('-H "Content-Type: application/x-ndjson" --data-binary @journal.jsonl')
    return " \\\n  ".join([f'curl "$ECHOSCOPE_URL{path}{"?" + query if query else ""}"', *options])


def _fields(schema: Mapping[str, Any]) -> Iterator[FieldRow]:
    required = schema.get("required", [])
    for name, value in schema.get("properties", {}).items():
        yield FieldRow(name, kind(value), _note(value), name in required)


def _note(schema: Mapping[str, Any]) -> str:
    parts = [schema.get("description", "")]
    default = schema.get("default")
    if default not in (None, "", [], {}):
        parts.append(f"Default: {json.dumps(default, ensure_ascii=False)}.")
    return _plain(" ".join(part for part in parts if part))


def _plain(text: str) -> str:
    """Remove Markdown's code marks from a text."""
    return text.replace("`", "")


def kind(schema: Mapping[str, Any]) -> str:
    """Describe a schema's type briefly: `integer, at most 100`, `RunOut[]`, `"pause" | "stop"`."""
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return " | ".join(dict.fromkeys(kind(option) for option in schema[keyword]))
    if "allOf" in schema:
        return " & ".join(kind(option) for option in schema["allOf"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    base = schema.get("type", "any")
    if base == "array":
        return f"{kind(schema.get('items', {}))}[]"
    if base == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"{{name: {kind(schema['additionalProperties'])}}}"
    if base == "string" and "format" in schema:
        return str(schema["format"])
    limits = [
        f"{word} {schema[name]:,}"
        for name, word in {
            "minimum": "at least",
            "exclusiveMinimum": "above",
            "maximum": "at most",
            "exclusiveMaximum": "below",
        }.items()
        if name in schema and abs(schema[name]) < 2**31 - 1
    ]
    return ", ".join([str(base), *limits])
