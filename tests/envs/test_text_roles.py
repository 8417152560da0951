"""Roles of text settings: declared by every environment, and safe where one is missing."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

import envs
from envs.base import EnvSettings
from envs.text_roles import TextRole, TextSetting, text_settings, undeclared


class Colour(StrEnum):
    RED = "red"


class Inner(BaseModel):
    file: str = ""
    note: Annotated[str, TextRole.PLAIN] = ""


class Declared(EnvSettings):
    size: int = 5
    share: float | None = None
    split: Literal["train", "test"] = "train"
    colour: Colour = Colour.RED
    title: Annotated[str, TextRole.PLAIN] = "Room"
    notes: Annotated[str | None, TextRole.PLAIN] = None
    paths: list[Annotated[str, TextRole.PATH]] = []
    names: Annotated[dict[str, str], TextRole.PLAIN] = {}


class Undeclared(EnvSettings):
    model_config = ConfigDict(extra="allow")

    levels: str = "shipped"
    optional: str | None = None
    several: list[str] = []
    table: dict[str, int] = {}
    anything: Any = None
    place: Path | None = None
    raw: bytes = b""
    mixed: Literal["a"] | str = "a"
    two: Annotated[str, TextRole.PLAIN] | Annotated[Path, TextRole.PATH] = ""
    inner: Inner = Field(default_factory=Inner)
    more: list[Inner] = []


@pytest.mark.parametrize("name", envs.names())
def test_every_environment_declares_what_its_texts_name(name: str) -> None:
    assert undeclared(envs.settings_model(name)) == [], "annotate the field with one of envs.text_roles.TextRole"


def test_fields_without_a_role_are_found() -> None:
    assert undeclared(Declared) == []
    fields = set(Undeclared.model_fields) - {"inner", "more"}
    assert set(undeclared(Undeclared)) == fields | {"inner.file", "more.file"}


def test_texts_are_listed_with_their_roles_unless_they_are_the_defaults() -> None:
    assert list(text_settings(Declared())) == []
    given = Declared(title="Hall", split="test", paths=["/a", "/b"], names={"key": "value"}, size=7)
    assert list(text_settings(given, "environment.settings.")) == [
        TextSetting("environment.settings.title", TextRole.PLAIN, "Hall"),
        TextSetting("environment.settings.paths", TextRole.PATH, "/a"),
        TextSetting("environment.settings.paths", TextRole.PATH, "/b"),
        TextSetting("environment.settings.names", TextRole.PLAIN, "key"),
        TextSetting("environment.settings.names", TextRole.PLAIN, "value"),
    ]


@pytest.mark.parametrize(
    "values, name, text",
    [
        ({"levels": "/etc"}, "levels", "/etc"),
        ({"levels": ""}, "levels", ""),
        ({"optional": "x"}, "optional", "x"),
        ({"several": ["x"]}, "several", "x"),
        ({"table": {"x": 1}}, "table", "x"),
        ({"anything": {"a": [{"b": ("x",)}]}}, "anything", "x"),
        ({"place": "/etc"}, "place", "/etc"),
        ({"raw": b"/etc"}, "raw", "/etc"),
        ({"mixed": "/etc"}, "mixed", "/etc"),
        ({"two": "/etc"}, "two", "/etc"),
        ({"inner": {"file": "/etc"}}, "inner.file", "/etc"),
        ({"more": [{"file": "/etc", "note": "fine"}]}, "more.file", "/etc"),
        ({"unknown": "/etc"}, "unknown", "/etc"),
    ],
)
def test_a_text_without_a_role_counts_as_a_path(values: dict[str, Any], name: str, text: str) -> None:
    assert TextSetting(name, TextRole.PATH, text) in list(text_settings(Undeclared.model_validate(values)))
