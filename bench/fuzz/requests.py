"""Requests for every URL pattern with odd arguments and parameters, and for every operation of the API."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from bench.fuzz import values
from bench.fuzz.site import Site
from webapp.services.addresses import ROOT

PARAMETER = re.compile(r"""(?:GET|POST|FILES)(?:\.get(?:list)?\(|\[)\s*["']([\w.-]+)["']|name="([\w.-]+)\"""")
FURTHER_PARAMETERS = ("names", "of", "next", "cursor", "limit", "iteration", "smooth", "at", "url", "format")
"""Parameters that helpers read, so that PARAMETER does not find them."""


@dataclass(frozen=True)
class Request:
    """A request that can be repeated from its printed form.

    Attributes:
        route: name of the URL pattern or of the API's operation.
        visitor: a session in `Site.cookies` or a token in `Site.tokens`.
        path: includes the query, percent-encoded.
    """

    route: str
    visitor: str
    method: str
    path: str
    body: bytes = b""
    content_type: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        body = f" {self.content_type} {self.body[:300]!r}" if self.body else ""
        headers = f" {self.headers}" if self.headers else ""
        return f"{self.method} {self.path[:600]} as {self.visitor}{headers}{body}"


@dataclass(frozen=True)
class Pattern:
    """A URL pattern: its name and a function that makes its path."""

    name: str
    arguments: tuple[str, ...]
    template: str  # as in %(slug)s


def patterns() -> list[Pattern]:
    """Return all URL patterns of the site except the API's operations and Django's admin."""
    from django.urls import URLPattern, URLResolver, get_resolver

    url_patterns: list[Pattern] = []

    def walk(resolver: URLResolver, prefix: str, space: str) -> None:
        for pattern in resolver.url_patterns:
            route = prefix + _route(pattern)
            if isinstance(pattern, URLResolver):
                if pattern.app_name != "admin":
                    walk(pattern, route, f"{space}{pattern.namespace}:" if pattern.namespace else space)
            elif isinstance(pattern, URLPattern) and not (space.startswith("api") and pattern.name != "openapi-json"):
                arguments = tuple(re.findall(r"%\((\w+)\)s", route))
                url_patterns.append(Pattern(f"{space}{pattern.name or route}", arguments, "/" + route))

    def _route(pattern: URLPattern | URLResolver) -> str:
        text = str(pattern.pattern).replace("%", "%%")
        text = re.sub(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)", r"%(\1)s", text)  # re_path()
        text = re.sub(r"<(?:\w+:)?(\w+)>", r"%(\1)s", text)  # path()
        return text.lstrip("^").rstrip("$").replace("\\Z", "")

    walk(get_resolver(), "", "")
    return url_patterns


@cache
def parameter_names() -> tuple[str, ...]:
    """Return names of query parameters and form fields that views read or templates contain."""
    names = set(FURTHER_PARAMETERS)
    for folder, suffix in (("webapp", "*.py"), ("templates", "*.html")):
        for path in (ROOT / folder).rglob(suffix):
            names.update(quoted or other for quoted, other in PARAMETER.findall(path.read_text(encoding="utf-8")))
    return tuple(sorted(names - {"csrfmiddlewaretoken"}))


def _encoded(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _query(dice: random.Random, names: tuple[str, ...], most: int) -> str:
    chosen = [(dice.choice(names), values.text(dice)) for _ in range(dice.randrange(most + 1))]
    return urlencode([(name, text.encode("utf-8", "surrogatepass")) for name, text in chosen])


def page_request(dice: random.Random, site: Site, known_patterns: list[Pattern]) -> Request:
    """Return a request for a page, a form or a file."""
    pattern = dice.choice(known_patterns)
    arguments = site.known if dice.random() < 0.6 else site.secret
    given = {}
    for name in pattern.arguments:
        value = str(arguments.get(f"{name} of {pattern.name}", arguments.get(name, "x")))
        if dice.random() < 0.12:
            value = values.mutated_text(dice, value)
        given[name] = _encoded(value)
    try:
        path = pattern.template % given
    except (KeyError, ValueError, TypeError):
        path = "/" + _encoded(pattern.template)
    names = parameter_names()
    query = str(arguments.get(f"? of {pattern.name}", "")) if dice.random() < 0.5 else _query(dice, names, 4)
    method = dice.choices(("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"), (60, 32, 3, 2, 2, 1))[0]
    body, content_type = b"", ""
    if method in ("POST", "PUT"):
        body, content_type = _form(dice, names)
    visitor = dice.choice(list(site.cookies))
    headers = {"HX-Request": "true"} if dice.random() < 0.2 else {}
    if dice.random() < 0.03:
        headers["Accept"] = values.text(dice).replace("\r\n", " ").replace("\0", " ")
    return Request(pattern.name, visitor, method, path + (f"?{query}" if query else ""), body, content_type, headers)


def _form(dice: random.Random, names: tuple[str, ...]) -> tuple[bytes, str]:
    kind = dice.randrange(10)
    if kind == 0:
        return json.dumps(values.scalar(dice)).encode(), "application/json"
    if kind == 1:
        return values.text(dice).encode("utf-8", "surrogatepass"), "multipart/form-data; boundary=x"
    if kind == 2:
        name, text = dice.choice(names), values.text(dice).encode("utf-8", "surrogatepass")
        part = f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + text + b"\r\n--x--\r\n"
        return part, "multipart/form-data; boundary=x"
    return _query(dice, names, 8).encode(), "application/x-www-form-urlencoded"


# ---- API


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (method, path, operation) of the OpenAPI document."""
    return [
        (method.upper(), path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in ("get", "post", "put", "patch", "delete")
    ]


def api_request(dice: random.Random, site: Site, document: dict[str, Any]) -> Request:
    """Return a request for an operation of the API: valid by its schema, or with a change."""
    method, path, operation = dice.choice(operations(document))
    arguments = site.known if dice.random() < 0.6 else site.secret
    query: list[tuple[str, bytes]] = []
    headers: dict[str, str] = {}
    for parameter in operation.get("parameters", []):
        name, schema = parameter["name"], parameter.get("schema", {})
        if parameter["in"] == "path":
            kind = "trajectory" if "/trajectories/" in path else "run"
            value = str(arguments.get(f"{name} of {kind}", arguments.get(name, "x")))
            if dice.random() < 0.12:
                value = values.mutated_text(dice, value)
            path = path.replace("{" + name + "}", _encoded(value))
            continue
        if dice.random() < 0.6 and not parameter.get("required"):
            continue
        value = values.text(dice) if dice.random() < 0.4 else _as_text(made(dice, schema, document))
        if parameter["in"] == "query":
            query.append((name, value.encode("utf-8", "surrogatepass")))
        elif parameter["in"] == "header":
            headers[name] = re.sub(r"[^\x20-\x7e]", "", value)
    body, content_type = b"", ""
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        content_type = dice.choice(list(content))
        value = made(dice, content[content_type].get("schema", {}), document)
        if dice.random() < 0.6:
            value = values.mutated(dice, value)
        body = (
            json.dumps(value).encode() if content_type.endswith("json") else _as_text(value).encode("utf-8", "replace")
        )
        if dice.random() < 0.03:
            content_type = dice.choice(("text/plain", "multipart/form-data; boundary=x", "", "application/gzip"))
    visitor = dice.choice([*site.tokens, *site.cookies])
    path = path + (f"?{urlencode(query)}" if query else "")
    return Request(operation.get("operationId", path), visitor, method, path, body, content_type, headers)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def made(dice: random.Random, schema: dict[str, Any], document: dict[str, Any], depth: int = 0) -> Any:
    """Return a value that mostly follows a JSON schema in the document."""
    if "$ref" in schema:
        return made(dice, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document, depth + 1)
    for words in ("anyOf", "oneOf", "allOf"):
        if schema.get(words):
            return made(dice, dice.choice(schema[words]), document, depth + 1)
    if "enum" in schema:
        return dice.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    if "default" in schema and dice.random() < 0.4:
        return schema["default"]
    makers: dict[str, Callable[[], Any]] = {
        "integer": lambda: dice.choice((0, 1, 2, 7, 100, schema.get("minimum", 0), schema.get("maximum", 10))),
        "number": lambda: dice.choice((0, 0.5, 1, schema.get("minimum", 0), schema.get("maximum", 1.5))),
        "boolean": lambda: dice.random() < 0.5,
        "null": lambda: None,
        "string": lambda: dice.choice(("a", "sokoban-pocket", "Sokoban", "x y", values.text(dice))),
        "array": lambda: [made(dice, schema.get("items", {}), document, depth + 1) for _ in range(dice.randrange(3))],
        "object": lambda: dict(_members(dice, schema, document, depth)),
    }
    return makers.get(str(schema.get("type")), lambda: values.scalar(dice))()


def _members(
    dice: random.Random, schema: dict[str, Any], document: dict[str, Any], depth: int
) -> Iterator[tuple[str, Any]]:
    if depth > 8:
        return
    for name, inner in schema.get("properties", {}).items():
        if name in schema.get("required", []) or dice.random() < 0.3:
            yield name, made(dice, inner, document, depth + 1)
    if isinstance(schema.get("additionalProperties"), dict) and dice.random() < 0.5:
        yield dice.choice(("seed", "iterations", "rollout.group_size", values.text(dice))), values.scalar(dice)
