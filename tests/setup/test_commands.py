"""Targets of `make`: what they run, and that the help lists them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap import commands, machine
from tests.suite import browser, stages, targets
from webapp.services import programs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Command lines of the programs that a command would run; nothing is installed."""
    runs: list[list[str]] = []

    def run(argv: list[str], **options: Any) -> SimpleNamespace:
        runs.append(argv)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(targets, "set_up", lambda name: Path(f"/{name}/python"))
    monkeypatch.setattr(browser, "ensure", lambda: "/usr/bin/chromium")
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("CHROMIUM", "")
    return runs


def test_the_makefile_has_every_command_and_explains_it() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lists = dict(re.findall(r"^(SET_UP|SUITE) = (.*)$", makefile, re.MULTILINE))
    assert set(lists["SET_UP"].split()) == {"help", *commands.COMMANDS}
    assert set(lists["SUITE"].split()) == targets.TARGETS.keys()
    explained = re.findall(r"^#: make ([a-z-]+)  ", makefile, re.MULTILINE)
    assert sorted(explained) == sorted(["help", "clean", *commands.COMMANDS, *targets.TARGETS])


class RecordedStages(stages.Stages):
    """Stages whose programs take no time; those in `failing` fail."""

    ran: list[tuple[dict[str, Any], bool]]
    failing = ""

    def run(self, programs: Any, *, side_by_side: bool) -> int:
        self.ran.append((programs, side_by_side))
        return int(self.failing in programs)


@pytest.fixture
def recorded(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> type[RecordedStages]:
    monkeypatch.setattr(RecordedStages, "ran", [], raising=False)
    monkeypatch.setattr(targets, "Stages", RecordedStages)
    monkeypatch.delenv("ONE", raising=False)
    return RecordedStages


@pytest.mark.parametrize(("gigabytes", "side_by_side"), [(16, True), (4, False)])
def test_checks_tests_and_browser_tests_run_side_by_side_given_the_memory(
    gigabytes: int, side_by_side: bool, recorded: type[RecordedStages], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "memory_bytes", lambda: gigabytes * machine.GIB)
    monkeypatch.setattr(recorded, "failing", "test-python")
    assert commands.run(targets.TARGETS, ["test", "-x"]) == 1
    programs, together = recorded.ran[0]
    assert (list(programs), together) == (["lint", "test-python", "test-browser"], side_by_side)
    assert all(word in programs["test-browser"] for word in ("not nightly", "-x"))
    assert programs["lint"][1:] == ["-m", "tests.suite", "lint"]


def test_every_test_includes_those_that_need_packages_of_their_own(
    recorded: type[RecordedStages], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "failing", "test-adapters")
    assert commands.run(targets.TARGETS, ["test-all"]) == 1
    (together, _), (apart, side_by_side) = recorded.ran
    assert (list(apart), side_by_side) == (["test-adapters", "test-vllm", "test-models"], False)
    assert not any("not nightly" in argv for argv in [*together.values(), *apart.values()])
    assert not any(targets.MORE_EXAMPLES in argv for argv in apart.values()), "only tests/conftest.py has that profile"


@pytest.mark.parametrize("codes", [[0], [1, 0], [1, 1], [2], [1, 5]])
def test_browser_tests_that_fail_are_repeated_with_a_fresh_product(
    codes: list[int], calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = iter(codes)

    def run(argv: list[str]) -> SimpleNamespace:
        calls.append(argv)
        return SimpleNamespace(returncode=next(given))

    monkeypatch.setattr(subprocess, "run", run)
    assert commands.run(targets.TARGETS, ["test-browser", "-v"]) == codes[-1]
    assert ["--last-failed" in argv for argv in calls] == [False, True][: len(codes)]
    assert all("-v" in argv for argv in calls)
    assert os.environ["CHROMIUM"] == "/usr/bin/chromium"


def test_memory_is_bounded_by_the_control_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(targets, "CGROUP_LIMIT", limit)
    total = targets.memory_bytes()
    assert total > machine.GIB
    limit.write_text("max\n")
    assert targets.memory_bytes() == total
    limit.write_text("4096\n")
    assert targets.memory_bytes() == 4096


@pytest.mark.parametrize(
    ("name", "python", "options", "chromium"),
    [
        ("tests/envs/test_bandit.py::test_pull", "/dev/python", [], ""),
        ("tests/browser/test_player.py", "/dev/python", [], "/usr/bin/chromium"),
        ("tests/vllm/test_engine.py", "/vllm/python", ["--confcutdir=tests/vllm"], ""),
        ("tests/models", "/dev/python", ["--confcutdir=tests/models"], ""),
        ("tests/envs/adapters/test_x.py", "/adapters/python", ["--confcutdir=tests/envs/adapters"], ""),
    ],
)
def test_one_test_runs_without_checks_with_what_it_needs(
    name: str,
    python: str,
    options: list[str],
    chromium: str,
    calls: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONE", name)
    assert commands.run(targets.TARGETS, ["test", "-x"]) == 0
    assert calls == [[python, "-m", "pytest", "-x", *options, name]]
    assert os.environ["CHROMIUM"] == chromium


def test_gpu_tests_use_a_python_that_has_cuda_and_the_projects_environment_otherwise(
    calls: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["-m", "pytest", "-x", "--confcutdir=tests/gpu", "-c", "tests/gpu/pytest.ini", "--rootdir=.", "tests/gpu"]
    monkeypatch.setattr(targets, "missing_for_gpu", lambda: "")
    assert commands.run(targets.TARGETS, ["test-gpu", "-x"]) == 0
    monkeypatch.setattr(targets, "missing_for_gpu", lambda: "pydantic, a CUDA build of torch")
    assert commands.run(targets.TARGETS, ["test-gpu", "-x"]) == 0
    assert calls == [[sys.executable, *options], ["/dev/python", *options]]
    assert "lacks pydantic, a CUDA build of torch" in capsys.readouterr().out


def test_what_this_python_lacks_for_the_gpu_tests_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert targets.missing_for_gpu() == ("" if torch.version.cuda else "a CUDA build of torch")
    monkeypatch.setattr(targets, "GPU_PACKAGES", ("json", "no_such_package"))
    assert targets.missing_for_gpu() == "no_such_package"


def make(folder: Path, pythons: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run `make` with nothing on the PATH but `pythons`, shell scripts by name."""
    for name, script in pythons.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    program = shutil.which("make")
    assert program is not None
    environment = {name: value for name, value in os.environ.items() if name not in ("ARGS", "ONE", "PYTHON")}
    environment["PATH"] = str(folder)
    return subprocess.run([program, "-s", *words], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_make_passes_the_test_to_the_suite_and_arguments_to_bootstrap(tmp_path: Path) -> None:
    pythons = {"python3": 'echo "$ONE: $*"'}
    done = make(tmp_path, pythons, "test", "ONE=tests/x.py::test_y")
    assert done.stdout == "tests/x.py::test_y: -m tests.suite test\n"
    done = make(tmp_path, pythons, "lock", "ARGS=--upgrade-package 'a b'")
    assert done.stdout == ": -m bootstrap lock --upgrade-package a b\n"


def test_make_uses_a_newer_python_where_the_default_is_too_old(tmp_path: Path) -> None:
    done = make(tmp_path, {"python3": "exit 1"}, "up")
    assert done.returncode
    assert "Echoscope needs Python 3.11 or newer, and python3 is missing or older" in done.stderr
    assert "'make up PYTHON=/path/to/python'" in done.stderr
    done = make(tmp_path, {"python3.13": 'echo "$*"'}, "up")
    assert done.stdout == "python3 is missing or too old for Echoscope; using python3.13.\n-m bootstrap up\n"


def test_the_development_server_restarts_on_code_templates_and_static_files(tmp_path: Path) -> None:
    web = programs.web("127.0.0.1", 8000, {}, tmp_path, reload=True)
    folders = [web.argv[at + 1] for at, word in enumerate(web.argv) if word == "--reload-dir"]
    assert folders == [str(ROOT / name) for name in ("webapp", "templates", "static")]
    patterns = {web.argv[at + 1] for at, word in enumerate(web.argv) if word == "--reload-include"}
    assert {"*.py", "*.html", "*.css", "*.js"} <= patterns
    assert web.env["ECHOSCOPE_DEBUG"] == "1"
    assert "--reload" not in programs.web("127.0.0.1", 8000, {}, tmp_path).argv
