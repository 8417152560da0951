"""`make platforms`: locked packages without a wheel on a supported platform. uv is replaced, so no index is needed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bootstrap import commands, lock, platform_wheels
from bootstrap.platform_wheels import (
    ABSENT,
    LOCKS,
    PLATFORMS,
    PYTHONS,
    SOURCE_ONLY,
    UNAVAILABLE,
    IndexUnavailable,
    Platform,
    Result,
    System,
    check,
    check_platform,
    locked,
    resolves,
    table,
    with_wheels,
    without_wheel,
)
from webapp.services.addresses import ROOT

MAC = System("macOS 14", "aarch64-apple-darwin", "14.0")


def program(folder: Path, code: str) -> Path:
    """A program in the place of uv."""
    path = folder / "uv"
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)
    return path


def test_the_lock_files_hold_nothing_but_pinned_requirements() -> None:
    for name in LOCKS:
        requirements = locked((ROOT / "requirements" / f"{name}.txt").read_text("utf-8"))
        assert len(requirements) > 50
        assert all("==" in one.partition(";")[0] for one in requirements)
    assert locked("# written by a program\n\na==1\nb==2 ; python_version < '3.12'\n") == [
        "a==1",
        "b==2 ; python_version < '3.12'",
    ]


def test_packages_that_exist_as_source_only_are_locked_and_not_checked() -> None:
    for name, sources in SOURCE_ONLY.items():
        every = {one.partition("==")[0] for one in locked((ROOT / "requirements" / f"{name}.txt").read_text("utf-8"))}
        checked = {one.partition("==")[0] for one in with_wheels(name)}
        assert every - checked == set(sources)


@pytest.mark.parametrize("absent", [set(), {"p3==1"}, {"p0==1", "p6==1"}, {f"p{number}==1" for number in range(7)}])
def test_requirements_without_a_wheel_are_found_among_the_others(absent: set[str]) -> None:
    requirements = [f"p{number}==1" for number in range(7)]
    queries: list[Sequence[str]] = []

    def finds_wheels(some: Sequence[str]) -> bool:
        queries.append(some)
        return not absent & set(some)

    assert without_wheel(requirements, finds_wheels) == sorted(absent)
    assert absent or len(queries) == 1, "one query is enough where nothing is absent"


def test_a_requirement_without_a_wheel_is_named_without_its_marker() -> None:
    assert without_wheel(["a==1 ; python_version < '3.13'"], lambda some: False) == ["a==1"]


def test_the_oldest_system_with_all_wheels_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def since(version: str) -> None:
        def has_wheels(requirements: Sequence[str], system: System, python: str) -> bool:
            return float(system.version.split()[1]) >= float(version) or "new==1" not in requirements

        monkeypatch.setattr(platform_wheels, "resolves", has_wheels)

    mac = Platform("macOS", tuple(System(f"macOS {one}", "aarch64-apple-darwin", f"{one}.0") for one in (13, 14, 15)))
    since("14")
    assert check_platform("run", ["old==1", "new==1"], mac, "3.12") == Result("run", "macOS", "3.12", "macOS 14")
    since("16")
    assert check_platform("run", ["old==1", "new==1"], mac, "3.12").absent == ("new==1",)


def test_uv_takes_only_wheels_for_the_other_machine(tmp_path: Path) -> None:
    code = f'echo "$* $MACOSX_DEPLOYMENT_TARGET $UV_PYTHON_DOWNLOADS" > {tmp_path}/words; cat > {tmp_path}/input'
    assert resolves(["a==1", "b==2"], MAC, "3.14", program(tmp_path, code))
    words = (tmp_path / "words").read_text()
    assert "--only-binary :all: --python-platform aarch64-apple-darwin --python-version 3.14 14.0 never" in words
    assert (tmp_path / "input").read_text() == "a==1\nb==2"


def test_a_missing_wheel_and_a_silent_index_are_distinguished(tmp_path: Path) -> None:
    absent = program(tmp_path, "cat > /dev/null; echo 'error: No solution found when resolving' >&2; exit 1")
    assert not resolves(["a==1"], MAC, "3.14", absent)
    silent = program(tmp_path, "cat > /dev/null; echo 'error: Failed to fetch: dns error' >&2; exit 2")
    with pytest.raises(IndexUnavailable, match="no finding about the packages\\.\nerror: Failed to fetch: dns error"):
        resolves(["a==1"], MAC, "3.14", silent)


def test_findings_and_a_silent_index_have_different_exit_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def silent(requirements: Sequence[str], system: System, python: str) -> bool:
        raise IndexUnavailable("The package index did not answer")

    monkeypatch.setattr(lock, "ensure_uv", lambda: None)
    monkeypatch.setattr(platform_wheels, "resolves", lambda requirements, system, python: True)
    assert check() == 0
    output = capsys.readouterr().out
    assert "requirements/dev.txt\n\n| platform | Python 3.11 |" in output
    assert "Not checked, since they exist as source only: cellpylib, chess, pycosat, zss." in output
    monkeypatch.setattr(platform_wheels, "resolves", lambda requirements, system, python: len(requirements) < 2)
    monkeypatch.setattr(platform_wheels, "without_wheel", lambda requirements, resolves: ["a==1"])
    assert check() == ABSENT
    assert "no wheel: a==1" in capsys.readouterr().out
    monkeypatch.setattr(platform_wheels, "resolves", silent)
    assert check() == UNAVAILABLE


def test_the_table_has_a_row_for_each_platform() -> None:
    results = [Result("run", platform.name, python, "glibc 2.28") for platform in PLATFORMS for python in PYTHONS]
    results[-1] = Result("run", PLATFORMS[-1].name, PYTHONS[-1], absent=("torch==2", "numba==1"))
    lines = table(results).splitlines()
    assert lines[0] == "| platform | Python 3.11 | Python 3.12 | Python 3.13 | Python 3.14 |"
    assert len(lines) == 2 + len(PLATFORMS)
    assert lines[-1].endswith("| glibc 2.28 | no wheel: torch==2, numba==1 |")


def test_an_intel_mac_is_refused_before_anything_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    commands.machine.require_supported_system()
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(commands.SetupError, match="no build for Intel Macs") as caught:
        commands.machine.require_supported_system()
    assert "docker compose up" in str(caught.value)


def test_the_embedded_server_is_the_one_of_the_package() -> None:
    from webapp.services.redis import binary

    done = subprocess.run([str(binary()), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Valkey server v=9.")
