"""The commands that docs/environments.md gives to users of other packages' environments, typed as they are there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.envs.adapters.openenv_server import GuessServer, serving
from tests.envs.adapters.test_verifiers_adapter import EXAMPLES, install

for package in ("reasoning_gym", "textarena", "websockets", "torch"):
    pytest.importorskip(package, reason=f"{package} is not installed: make test-adapters")

ROOT = Path(__file__).parents[3]
PATIENT = {"ECHOSCOPE_TIMEOUT_ENVIRONMENT_START": "600", "ECHOSCOPE_TIMEOUT_ENVIRONMENT_STEP": "300"}
"""On a loaded machine, the import of a package takes minutes."""
SHORT = {
    "train": (
        "iterations=1",
        "rollout.groups=1",
        "rollout.group_size=2",
        "rollout.max_turns=2",
        "evaluation.prompts=2",
    ),
    "evaluate": ("evaluation.prompts=2", "rollout.max_turns=2"),
}
"""What makes a documented run take seconds."""


def documented() -> list[str]:
    """The commands of the section about environments of other packages, each on one line."""
    text = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    section = text.split("\n## Environments of other packages\n")[1].split("\n## ")[0]
    blocks = [text for _, text in re.findall(r"^```(\w*)\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)]
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [re.sub(r"\s*#.*", "", line) for line in lines if line.startswith("python -m trainer")]


COMMANDS = documented()
LISTS = [line for line in COMMANDS if " environments" in line]
RUNS = [line for line in COMMANDS if line not in LISTS]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installed environment of verifiers."""
    folder = tmp_path_factory.mktemp("packages")
    install(folder, "shop-example", (EXAMPLES / "shop_example.py").read_text())
    return folder


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(GuessServer()) as address:
        yield address


def typed(line: str, packages: Path, *more: str) -> str:
    """What a command prints. It has to succeed."""
    argv = [sys.executable, *line.split()[1:], *(word for setting in more for word in ("--set", setting))]
    variables = {**os.environ, **PATIENT, "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(argv, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_lists_of_environments_have_every_adapter_and_its_variants(packages: Path) -> None:
    printed = {line.removeprefix("python -m trainer environments").strip(): typed(line, packages) for line in LISTS}
    for adapter in ("Gymnasium", "ReasoningGym", "TextArena", "Verifiers"):
        assert re.search(rf"^{adapter} .* \d+ variants: ", printed[""], re.MULTILINE), adapter
    assert re.search("^OpenEnv ", printed[""], re.MULTILINE)
    assert "Taxi-v4" in printed["Gymnasium"]
    assert "Mastermind-v0" in printed["TextArena"]
    assert "shop-example" in printed["Verifiers"]
    found = printed["ReasoningGym --search graph"].splitlines()
    assert found
    assert all("graph" in line.lower() for line in found)


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("line", RUNS)
def test_documented_runs_play_their_environments_to_the_end(
    line: str, packages: Path, address: str, tmp_path: Path
) -> None:
    out = re.findall(r"--out (\S+)", line)[0]
    line = line.replace(out, str(tmp_path)).replace("http://localhost:8000", address).replace("PACKAGE", "shop-example")
    typed(line, packages, *SHORT[line.split()[3]])
    journal = events(tmp_path)
    finished = [event for event in journal if event["type"] == "trajectory_finished"]
    assert len(finished) >= 2
    assert [event["error"] for event in finished if event.get("error")] == [], "no trajectory was lost"
    assert journal[-1]["type"] == "run_finished"
    if "shop-example" in line:
        started = next(event for event in journal if event["type"] == "group_started")
        assert re.fullmatch(r"Buy a (lamp|rug)\.", started["board"]["text"])
    for suite in re.findall(r"\w+:id=\S+", line):  # the first one is the run's own, with the environment's name
        names = (suite, suite.partition(":")[0])
        assert any(event["type"] == "evaluation" and event["suite"] in names for event in journal), suite


def test_the_commands_of_every_adapter_are_documented() -> None:
    assert len(LISTS) >= 5
    assert all(any(name in line for line in RUNS) for name in ("Gymnasium", "ReasoningGym", "TextArena"))
    assert all(any(f"environment.name={name}" in line for line in RUNS) for name in ("Verifiers", "OpenEnv"))
