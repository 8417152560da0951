"""The recorded commit: of the installation's own repository, with a sign of changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trainer.journal import source_commit


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, "-C", str(folder), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "a.py").write_text("1")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_the_commit_is_that_of_the_repository(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert source_commit.get_commit(repository) == head
    (repository / "notes.txt").write_text("untracked")
    assert source_commit.get_commit(repository) == head
    (repository / "a.py").write_text("2")
    assert source_commit.get_commit(repository) == f"{head}+changes"


def test_an_installation_below_another_repository_has_no_commit(repository: Path, tmp_path: Path) -> None:
    below = repository / "site-packages"
    below.mkdir()
    assert source_commit.get_commit(below) == ""
    assert source_commit.get_commit(tmp_path) == ""


def test_a_machine_without_git_has_no_commit(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    assert source_commit.get_commit(repository) == ""


def test_an_image_names_its_commit_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(source_commit.VARIABLE, " c0ffee ")
    source_commit.source_commit.cache_clear()
    assert source_commit.source_commit() == "c0ffee"
    source_commit.source_commit.cache_clear()
