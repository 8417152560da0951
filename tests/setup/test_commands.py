"""Commands of `make`: what they run, and that the help lists them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap import browser, commands, machine, stages
from bootstrap.packages import PYTHON
from bootstrap.test_environments import adapter_packages, gpu_packages, vllm_packages
from webapp.services import programs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """(command line, environment) of the programs that a command would run; nothing is installed."""
    runs: list[tuple[list[str], dict[str, str]]] = []

    def run(argv: list[str], env: dict[str, str] | None = None, **options: Any) -> SimpleNamespace:
        runs.append((argv, env or {}))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(commands, "set_up", lambda extra: None)
    monkeypatch.setattr(adapter_packages, "ensure", lambda: None)
    monkeypatch.setattr(vllm_packages, "ensure", lambda: None)
    monkeypatch.setattr(browser, "ensure", lambda: "/usr/bin/chromium")
    monkeypatch.setattr(subprocess, "run", run)
    return runs


def test_help_and_makefile_list_every_command() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (targets,) = re.findall(r"^(help .*):$", makefile, re.MULTILINE)
    assert set(targets.split()) == commands.COMMANDS.keys()
    for name in commands.COMMANDS.keys() - {"help"}:
        assert re.search(rf"^make {name} ", commands.HELP, re.MULTILINE), name


class Programs:
    """What a test command does, in order, with programs that take no time; those in `failing` fail."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.argv: dict[str, list[str]] = {}
        self.failing: set[str] = set()

    def make(self, argv: list[str], log: Path) -> Programs.Program:
        self.argv[log.stem] = argv
        return Programs.Program(self, log.stem)

    class Program:
        def __init__(self, programs: Programs, name: str) -> None:
            self.programs, self.name = programs, name

        def _step(self, word: str) -> None:
            self.programs.steps.append(f"{word} {self.name}")

        def __enter__(self) -> Programs.Program:
            self._step("start")
            return self

        def __exit__(self, *error: object) -> None:
            self._step("end")

        def show(self) -> int:
            self._step("show")
            return int(self.name in self.programs.failing)

        def seconds(self) -> float:
            return 61.0


@pytest.fixture
def programs_of_stages(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> Programs:
    programs = Programs()
    monkeypatch.setattr(stages, "Background", programs.make)
    monkeypatch.delenv("ONE", raising=False)
    return programs


STAGES = ["make lint", "pytest", "make test-browser"]
APART = ["make test-adapters", "make test-vllm", "make test-models"]


@pytest.mark.parametrize("failing", STAGES)
def test_checks_tests_and_browser_tests_run_side_by_side(
    failing: str,
    programs_of_stages: Programs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(machine, "memory_bytes", lambda: 16 * machine.GIB)
    programs_of_stages.failing = {failing}
    assert commands.test(["-x"]) == 1, "the failure of a program in the background is the command's"
    started, shown, ended = ([f"{word} {name}" for name in STAGES] for word in ("start", "show", "end"))
    assert programs_of_stages.steps == [*started, *shown, *reversed(ended)]
    assert "not nightly" in programs_of_stages.argv["pytest"]
    assert "-x" in programs_of_stages.argv["make test-browser"]
    assert re.search(rf"^{failing} +61  exit code 1$", capsys.readouterr().out, re.MULTILINE)


def test_every_test_includes_those_that_need_packages_of_their_own(programs_of_stages: Programs) -> None:
    programs_of_stages.failing = {"make test-adapters"}
    assert commands.test_all([]) == 1
    assert [step for step in programs_of_stages.steps if step.startswith("show")] == [
        f"show {name}" for name in [*STAGES, *APART]
    ]
    assert not any("not nightly" in argv for argv in programs_of_stages.argv.values())


def test_with_little_memory_they_run_in_turn(programs_of_stages: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_bytes", lambda: 4 * machine.GIB)
    assert commands.test([]) == 0
    assert programs_of_stages.steps == [f"{word} {name}" for name in STAGES for word in ("start", "show", "end")]


@pytest.mark.parametrize("codes", [[0], [1, 0], [1, 1], [2], [1, 5]])
def test_browser_tests_that_fail_are_repeated_with_a_fresh_product(
    codes: list[int], calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = iter(codes)

    def run(argv: list[str], env: dict[str, str]) -> SimpleNamespace:
        calls.append((argv, env))
        return SimpleNamespace(returncode=next(given))

    monkeypatch.setattr(subprocess, "run", run)
    assert commands.test_browser(["-v"]) == codes[-1]
    assert len(calls) == len(codes)
    assert all(env["CHROMIUM"] == "/usr/bin/chromium" and "-v" in argv for argv, env in calls)
    assert ["--last-failed" in argv for argv, _ in calls] == [False, True][: len(codes)]


def test_memory_is_bounded_by_the_control_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "CGROUP_LIMIT", limit)
    total = machine.memory_bytes()
    assert total > machine.GIB
    limit.write_text("max\n")
    assert machine.memory_bytes() == total
    limit.write_text("4096\n")
    assert machine.memory_bytes() == 4096


def test_one_test_runs_without_checks(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "tests/envs/test_bandit.py::test_pull")
    assert commands.test(["-x"]) == 0
    ((argv, env),) = calls
    assert argv == [str(PYTHON), "-m", "pytest", "-x", "tests/envs/test_bandit.py::test_pull"]
    assert env.get("CHROMIUM") == os.environ.get("CHROMIUM")


def test_one_browser_test_gets_its_browser(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "tests/browser/test_player.py")
    assert commands.test([]) == 0
    ((_, env),) = calls
    assert env["CHROMIUM"] == "/usr/bin/chromium"


def test_one_vllm_test_runs_with_the_python_of_vllm(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "tests/vllm/test_engine.py")
    assert commands.test([]) == 0
    ((argv, _),) = calls
    assert (argv[0], argv[-1]) == (str(vllm_packages.PYTHON), "tests/vllm/test_engine.py")


def test_tests_of_adapters_run_with_the_python_that_has_their_packages(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE", "tests/envs/adapters/test_textarena_adapter.py")
    assert commands.test(["-x"]) == 0
    monkeypatch.delenv("ONE")
    assert commands.test_adapters([]) == 0
    one, every = (argv for argv, _ in calls)
    separate = "--confcutdir=tests/envs/adapters"
    python = str(adapter_packages.VENV_PYTHON)
    assert one == [python, "-m", "pytest", "-x", separate, "tests/envs/adapters/test_textarena_adapter.py"]
    assert every == [python, "-m", "pytest", "-n", "2", "--dist", "loadfile", separate, "tests/envs/adapters"]


GPU_OPTIONS = ["-c", "tests/gpu/pytest.ini", "--rootdir=.", "--confcutdir=tests/gpu"]


def test_gpu_tests_run_with_a_python_that_has_cuda_and_install_nothing(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_packages, "missing", lambda: "")
    monkeypatch.setattr(commands, "set_up", lambda extra: pytest.fail("something would be installed"))
    assert commands.test_gpu(["-x"]) == 0
    monkeypatch.setenv("ONE", "tests/gpu/test_runs.py")
    assert commands.test([]) == 0
    every, one = (argv for argv, _ in calls)
    assert every == [sys.executable, "-m", "pytest", "-x", *GPU_OPTIONS, "tests/gpu"]
    assert one == [sys.executable, "-m", "pytest", *GPU_OPTIONS, "tests/gpu/test_runs.py"]


def test_gpu_tests_use_the_projects_environment_otherwise(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_packages, "missing", lambda: "pydantic, a CUDA build of torch")
    assert commands.test_gpu([]) == 0
    ((argv, _),) = calls
    assert argv == [str(PYTHON), "-m", "pytest", *GPU_OPTIONS, "tests/gpu"]
    assert "lacks pydantic, a CUDA build of torch" in capsys.readouterr().out


def test_what_a_python_lacks_for_the_gpu_tests_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_packages, "NEEDED", ("json", "no_such_package"))
    assert gpu_packages.missing() == "no_such_package"
    assert gpu_packages.missing("/bin/false") == "a working torch"


def test_make_passes_the_test_to_bootstrap(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$ONE: $*"\n', encoding="utf-8")
    python.chmod(0o755)
    argv = ["make", "--silent", "test", "ONE=tests/x.py::test_y", f"PYTHON={python}"]
    environment = {name: value for name, value in os.environ.items() if name != "ARGS"}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout == "tests/x.py::test_y: -m bootstrap test\n"


def test_the_development_server_restarts_on_code_templates_and_static_files(tmp_path: Path) -> None:
    web = programs.web("127.0.0.1", 8000, {}, tmp_path, reload=True)
    folders = [web.argv[at + 1] for at, word in enumerate(web.argv) if word == "--reload-dir"]
    assert folders == [str(ROOT / name) for name in ("webapp", "templates", "static")]
    patterns = {web.argv[at + 1] for at, word in enumerate(web.argv) if word == "--reload-include"}
    assert {"*.py", "*.html", "*.css", "*.js"} <= patterns
    assert web.env["ECHOSCOPE_DEBUG"] == "1"
    assert "--reload" not in programs.web("127.0.0.1", 8000, {}, tmp_path).argv
