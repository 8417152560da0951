"""Repository rules checked by tools: direction of imports, exact versions in lock files."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bootstrap import locks
from webapp.services.addresses import ROOT

HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==[^ ;]+( ; .+)?$")


def test_imports_point_from_the_site_to_the_trainer_to_the_environments() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([str(tool), "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_site_starts_without_torch() -> None:
    """The web process would be seconds slower and hundreds of megabytes larger."""
    code = "import sys, webapp.asgi, webapp.runs.launch.form, webapp.worker.tasks; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("name", ["run", "dev", "adapters", "vllm"])
def test_every_locked_package_has_one_exact_version_and_no_url(name: str) -> None:
    lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    assert lines[0].startswith("# ")
    entries = [line for line in lines[1:] if not HASH.fullmatch(line)]
    assert entries == [line for line in lines if "==" in line]
    for line in locks.versions(name):
        assert PINNED.match(line), line


def test_every_direct_dependency_is_locked_and_has_its_reason_in_the_docs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {normal(line.partition("==")[0]) for line in locks.versions("dev")}
    reasons = (ROOT / "docs" / "dependencies.md").read_text()
    extras = project["optional-dependencies"]
    named = [name for extra in ("envs", "parquet", "train", "site", "trackers", "dev") for name in extras[extra]]
    for requirement in project["dependencies"] + named:
        name = re.split(r"[\[<>=; ]", requirement)[0]
        if name == project["name"]:  # an extra that holds another one
            continue
        assert normal(name) in locked, name
        assert f"`{name}`" in reasons, f"docs/dependencies.md does not say why {name} is here"


def test_both_distributions_have_one_version_that_the_changelog_names() -> None:
    trainer, client = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"] for folder in (".", "echoscope")
    )
    pins = {line for extra in client["optional-dependencies"].values() for line in extra if trainer["name"] in line}
    assert trainer["version"] == client["version"]
    assert pins
    assert {pin.partition("==")[2] for pin in pins} == {trainer["version"]}
    assert f"## [{trainer['version']}]" in (ROOT / "CHANGELOG.md").read_text()


def test_a_plain_install_is_the_recorder_and_the_client_alone() -> None:
    project = tomllib.loads((ROOT / "echoscope" / "pyproject.toml").read_text())["project"]
    assert [re.split(r"[<>=]", requirement)[0] for requirement in project["dependencies"]] == ["httpx", "pydantic"]


def test_the_npm_lock_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "package-lock.json").read_text()


def test_lines_of_html_templates_are_at_most_120_columns() -> None:
    """Texts of mails are exempt: their lines are those of the mail."""
    long = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)}"
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 120
    ]
    assert not long, "\n".join(long)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


FONT_SIZE = re.compile(r"(?:font-size|font):[^;}]*?\b(?!var)(?:[0-9.]+(?:px|rem|em|pt)|clamp)\b")
OWN_SIZES = {"result-delta", "history-title"}
"""Large figures that grow with the window."""


def test_styles_take_their_text_sizes_from_the_tokens() -> None:
    rules = [
        f"{path.name}: {line.strip()}"
        for path in sorted((ROOT / "static" / "css").glob("*.css"))
        if path.name != "admin.css"  # Django's admin has its own style sheet
        for line in path.read_text().splitlines()
        if FONT_SIZE.search(line) and ".coordinates text" not in line  # in units of the drawing
    ]
    assert {re.sub(r".*: \.([-\w]+) .*", r"\1", rule) for rule in rules} == OWN_SIZES, rules
