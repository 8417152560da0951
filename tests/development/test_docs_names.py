"""Documentation: settings, environment variables and trainer commands named in pages are current."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from trainer.cli.parser import parser
from trainer.config.run import RunConfig

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "settings.md"})
"""Without the generated page."""
EXAMPLES = sorted(
    path for path in (ROOT / "docs" / "examples").rglob("*") if path.is_file() and "__pycache__" not in path.parts
)
VARIABLE = re.compile(r"\bECHOSCOPE_[A-Z_]+\b")
COMMAND = re.compile(r"python -m trainer ([a-z][a-z-]+)")
YAML = re.compile(r"^ *```yaml\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CODE = ("webapp", "trainer", "envs", "echoscope", "bootstrap")
COMPOSE = {"ECHOSCOPE_BIND", "ECHOSCOPE_TARGET"}
"""Variables of compose.yaml only."""
PREFIXES = ("ECHOSCOPE_OIDC", "ECHOSCOPE_STORAGE")
"""Groups of variables that the code reads by a common prefix."""


def sections() -> dict[str, set[str]]:
    """Section of the settings → names of its settings."""
    models = {name: field.annotation for name, field in RunConfig.model_fields.items()}
    return {
        name: set(model.model_fields)
        for name, model in models.items()
        if isinstance(model, type) and issubclass(model, BaseModel)
    }


SECTIONS = sections()
SETTING = re.compile(rf"(?<![\w./-])({'|'.join(SECTIONS)})\.([a-z_]+)(?=[\s`=:,;.)]|$)", re.MULTILINE)
FILE_ENDINGS = {"md", "py", "jsonl", "json", "yaml"}
API_FIELDS = {("journal", "offset")}


def source() -> str:
    """Text of all Python modules that read environment variables."""
    return "\n".join(path.read_text(encoding="utf-8") for name in CODE for path in (ROOT / name).rglob("*.py"))


def mappings(text: str) -> Iterator[dict[str, Any]]:
    """YAML examples of a page that contain settings."""
    for block in YAML.findall(text):
        data = yaml.safe_load(block)
        if isinstance(data, dict) and data.keys() <= RunConfig.model_fields.keys():
            yield data


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_named_in_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = [(section, name) for section, name in SETTING.findall(text) if name not in FILE_ENDINGS]
    named += [
        (section, name)
        for data in mappings(text)
        for section, values in data.items()
        if section in SECTIONS and isinstance(values, dict)
        for name in values
    ]
    unknown = {pair for pair in named if pair[1] not in SECTIONS[pair[0]]} - API_FIELDS
    assert unknown == set()


def test_environment_variables_named_in_pages_and_examples_are_read_by_the_code() -> None:
    files = [*PAGES, *EXAMPLES]
    names = {name for file in files for name in VARIABLE.findall(file.read_text(encoding="utf-8"))}
    assert "ECHOSCOPE_RAY_ADDRESS" in names, "the example of Slurm is read, too"
    code = source()
    ours = {name for name in names - COMPOSE if not name.startswith(PREFIXES)}
    assert {name for name in ours if name not in code} == set()


def test_trainer_commands_named_in_pages_exist() -> None:
    names = {name for page in PAGES for name in COMMAND.findall(page.read_text(encoding="utf-8"))}
    choices = next(action.choices for action in parser()._actions if action.dest == "command")
    assert names <= set(choices or ())
