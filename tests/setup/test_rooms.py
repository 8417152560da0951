"""Structure of the source tree (docs/development/architecture.md): no import cycles, folder sizes, unique names."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from tests.setup import rooms
from tests.setup.rooms import (
    circles,
    imports,
    javascript_module_graph,
    javascript_room_graph,
    module_graph,
    modules,
    room_graph,
)

LAYERS = ("envs", "trainer", "webapp")
DJANGO_STEMS = {"__init__", "access", "actions", "admin", "apps", "forms", "models", "urls", "views"}
"""Stems that every Django app has; the app's name distinguishes them."""


@pytest.mark.parametrize("package", LAYERS)
def test_packages_form_no_import_cycle(package: str) -> None:
    """Lazy and type-only imports count: import-linter does not see all of them."""
    assert circles(room_graph(package)) == []


def test_javascript_folders_form_no_import_cycle() -> None:
    graph = javascript_room_graph()
    assert "ui" in graph["live"], "the imports are read"
    assert circles(graph) == []


def test_javascript_modules_form_no_circle() -> None:
    graph = javascript_module_graph()
    assert "ui/clipboard.js" in graph["pages/launch_form.js"], "the imports are read"
    assert circles(graph) == []


@pytest.mark.parametrize("package", [*LAYERS, "echoscope", "bench", "bootstrap", "tests"])
def test_modules_form_no_circle(package: str) -> None:
    """Within a room, too. Lazy and type-only imports count."""
    assert circles(module_graph(package)) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from toy.b import B", "def f():\n    from toy.a import A"),
        ("import toy.b", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toy.a import A"),
        ("from toy import b", "from . import a"),
        ("from .b import B", "from toy import a"),
    ],
)
def test_a_circle_of_two_modules_is_noticed(
    first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy").mkdir()
    for name, text in (("__init__", ""), ("a", first), ("b", second), ("c", "from toy.a import A")):
        (tmp_path / "toy" / f"{name}.py").write_text(text)
    monkeypatch.setattr(rooms, "ROOT", tmp_path)
    assert circles(module_graph("toy")) == [["toy.a", "toy.b"]]


def test_no_view_imports_another_view() -> None:
    wrong = [
        str(one)
        for one in imports("webapp")
        if one.source.endswith("_views") and one.target.endswith("_views") and one.source != one.target
    ]
    assert wrong == [], "what two pages share stands in a module beside the views (webapp/pages/run_page.py)"


@pytest.mark.parametrize("package", LAYERS)
def test_no_module_name_twice_within_a_layer(package: str) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, path in modules(package).items():
        if path.stem not in DJANGO_STEMS:
            places[path.stem].append(module)
    assert {stem: found for stem, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("package", LAYERS)
def test_no_class_name_twice_within_a_layer(package: str) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, path in modules(package).items():
        if ".management.commands." in module:
            continue  # Django requires the class name Command
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
