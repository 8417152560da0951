"""The replay of the Dockerfile: what it reads in it, and that it refuses what it does not understand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.image import dockerfile, image_run, roots
from bench.image.dockerfile import Instruction
from bench.image.roots import Root

TEXT = """
ARG PYTHON=3.12
# a remark
FROM python:${PYTHON}-slim AS base
RUN --mount=type=cache,target=/root/.cache/pip \\
    pip install -r a.txt \\
    && true
FROM base AS other
ENV PATH=/opt/bin:$PATH \\
    WORDS="two words"
COPY a.txt b.txt /tmp/
COPY --from=base /opt /srv
CMD ["run", "it"]
FROM base AS unused
"""


def test_lines_are_joined_and_stages_named() -> None:
    stages = dockerfile.parse(TEXT, {"PYTHON": "3.13"})
    assert [(stage.name, stage.base) for stage in stages.values()] == [
        ("base", "python:3.13-slim"),
        ("other", "base"),
        ("unused", "base"),
    ]
    (run,) = stages["base"].instructions
    assert dockerfile.command_of(run.value) == "pip install -r a.txt && true"
    environment, files, folder, command = stages["other"].instructions
    assert dockerfile.assignments(environment.value) == {"PATH": "/opt/bin:$PATH", "WORDS": "two words"}
    assert dockerfile.copied(files.value) == (None, ["a.txt", "b.txt"], "/tmp/")
    assert dockerfile.copied(folder.value) == ("base", ["/opt"], "/srv")
    assert command == Instruction("CMD", '["run", "it"]')
    assert dockerfile.needed(stages, "other") == ["base", "other"]


@pytest.mark.parametrize("line", ["ADD a b", "RUN true"])
def test_what_is_not_understood_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=line.split()[0]):
        dockerfile.parse(f"{line}\nFROM a AS b\n", {})


def test_the_dockerfile_is_understood_and_its_targets_need_the_stages_they_copy_from() -> None:
    stages = dockerfile.parse((image_run.REPOSITORY / "Dockerfile").read_text(), {})
    assert list(stages)[-1] == "cpu", "the default target"
    assert dockerfile.needed(stages, "cpu") == ["pages", "packages", "packages-cpu", "site", "cpu"]
    assert "packages-cuda" in dockerfile.needed(stages, "ray")


def test_paths_stay_inside_the_root(tmp_path: Path) -> None:
    root = Root(tmp_path, workdir="/app")
    assert root.inside("static/vendor") == tmp_path / "app/static/vendor"
    assert root.inside("/tmp/run.txt") == tmp_path / "tmp/run.txt"
    assert root.inside("../../../etc/passwd") == tmp_path / "etc/passwd"


def test_only_root_may_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match="as root"):
        roots.check_machine()
