"""Imports between the rooms of a package, lazy and type-only ones included, read from the source."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Import:
    """One import of a module of another room.

    Attributes:
        source: dotted name of the importing module.
        target: dotted name of the imported module, or of the package where a package itself is imported.
        line: line number of the statement.
    """

    source: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.source.replace('.', '/')}.py:{self.line} imports {self.target}"


def modules(package: str) -> dict[str, Path]:
    """Every module of a top-level package by its dotted name; migrations and what pip builds are left out."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        if {"migrations", "build"} & set(path.relative_to(ROOT).parts):
            continue
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room_of(module: str) -> str:
    """The room of a module: the folder below its top-level package; a module of the top level is its own room."""
    return ".".join(module.split(".")[:2])


def imports(package: str) -> Iterator[Import]:
    """Every import of a module of the same package, at any place in a file."""
    known = modules(package)
    for source, path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                parent = absolute(node, source, path)
                children = [f"{parent}.{alias.name}" for alias in node.names]
                names = [child if child in known else parent for child in children]
            for name in dict.fromkeys(names):
                if name in known:
                    yield Import(source, name, node.lineno)


def absolute(node: ast.ImportFrom, source: str, path: Path) -> str:
    """Dotted name of the module that a statement in `source` imports from; a relative one is resolved."""
    if not node.level:
        return node.module or ""
    levels = node.level - (path.stem == "__init__")
    package = source.split(".")[: -levels or None]
    return ".".join([*package, *filter(None, [node.module])])


def between_rooms(package: str) -> list[Import]:
    """The imports that lead from one room into another."""
    return [one for one in imports(package) if room_of(one.source) != room_of(one.target)]


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one node (Tarjan), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(edges.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = []
            while True:
                member = stack.pop()
                component.append(member)
                if member == node:
                    break
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def module_graph(package: str) -> dict[str, set[str]]:
    """Which module imports which."""
    edges: dict[str, set[str]] = defaultdict(set)
    for one in imports(package):
        if one.source != one.target:
            edges[one.source].add(one.target)
    return dict(edges)


def room_graph(package: str) -> dict[str, set[str]]:
    """Which room imports which."""
    edges: dict[str, set[str]] = defaultdict(set)
    for one in between_rooms(package):
        edges[room_of(one.source)].add(room_of(one.target))
    return dict(edges)


JAVASCRIPT_IMPORT = re.compile(r"""(?:from|import|import\()\s*["'](\.{1,2}/[^"']+\.js)["']""")


def javascript_module_graph() -> dict[str, set[str]]:
    """Which file of static/js imports which, as paths from there, JSDoc type imports included."""
    top = ROOT / "static" / "js"
    edges: dict[str, set[str]] = defaultdict(set)
    for path in sorted(top.rglob("*.js")):
        for match in JAVASCRIPT_IMPORT.finditer(path.read_text(encoding="utf-8")):
            target = (path.parent / match[1]).resolve()
            if target.is_relative_to(top):  # otherwise in static/vendor
                edges[path.relative_to(top).as_posix()].add(target.relative_to(top).as_posix())
    return dict(edges)


def javascript_room_graph() -> dict[str, set[str]]:
    """Which folder of static/js imports which; a file at the top is its own room."""
    edges: dict[str, set[str]] = defaultdict(set)
    for source, targets in javascript_module_graph().items():
        rooms = {target.partition("/")[0] for target in targets} - {source.partition("/")[0]}
        if rooms:
            edges[source.partition("/")[0]] |= rooms
    return dict(edges)
