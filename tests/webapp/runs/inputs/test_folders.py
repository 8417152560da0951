"""Folders whose files runs of the site may read: below those that the operator lists, and nothing of the site's own."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from trainer.paths import POCKET_CHECKPOINT
from webapp.runs.inputs import model_shapes
from webapp.runs.inputs.folders import DATA, MODELS


@pytest.fixture
def listed(tmp_path: Path, settings: Settings) -> Path:
    """An allowed folder beside the site's own one."""
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "var"
    (tmp_path / "var" / "runs" / "other").mkdir(parents=True)
    folder = tmp_path / "levels"
    (folder / "hard").mkdir(parents=True)
    settings.ECHOSCOPE_DATA_FOLDERS = [str(folder)]
    return folder


def test_files_below_a_listed_folder_may_be_read(listed: Path) -> None:
    for path in (listed, listed / "hard", listed / "hard" / "not there yet.txt", f"{listed}//hard/./"):
        assert DATA.problem(str(path)) == ""


def test_other_files_may_not_be_read(listed: Path) -> None:
    (listed / "out").symlink_to(listed.parent / "var")
    (listed / "file out").symlink_to("/etc/hostname")
    (listed / "circle").symlink_to(listed / "circle")
    for path in (
        "/etc/passwd",
        "/",
        "//etc/passwd",
        ".",
        "~",
        "levels",
        str(listed.parent),
        f"{listed}er",
        f"{listed}/../var/runs",
        f"{listed}/out/runs/other",
        f"{listed}/file out",
        f"{listed}/circle/x",
        f"{listed}/\0",
        f"{listed}/a\nb",
        f" {listed}",
        str(listed.parent / "var" / "runs" / "other"),
    ):
        assert f"below {listed}" in DATA.problem(path), path


def test_without_a_list_nothing_may_be_read(settings: Settings) -> None:
    assert "once its operator has listed folders in ECHOSCOPE_DATA_FOLDERS" in DATA.problem("/data/levels.txt")
    assert "ECHOSCOPE_MODEL_FOLDERS" in MODELS.problem("/models/one")
    settings.ECHOSCOPE_DATA_FOLDERS = ["relative", "."]
    assert DATA.problem(str(Path("relative").resolve()))
    assert MODELS.problem(str(POCKET_CHECKPOINT)) == "", "it is part of the program"


@pytest.mark.parametrize("root", ["/", "the data folder", "its parent", "runs"])
def test_a_list_that_includes_the_data_folder_does_not_open_the_runs(
    root: str, tmp_path: Path, settings: Settings
) -> None:
    data = settings.ECHOSCOPE_DATA_DIR = tmp_path / "var"
    (data / "runs" / "other").mkdir(parents=True)
    roots = {"the data folder": data, "its parent": tmp_path, "runs": data / "runs"}
    settings.ECHOSCOPE_DATA_FOLDERS = [str(roots.get(root, root))]
    for path in (tmp_path, data, data / "runs", data / "runs" / "other", data / "secret_key"):
        assert DATA.problem(str(path)), path
    assert (DATA.problem(str(tmp_path / "levels")) == "") == (root in ("/", "its parent"))
    settings.ECHOSCOPE_DATA_FOLDERS.append(str(data / "levels"))
    assert DATA.problem(str(data / "levels" / "one.txt")) == "", "listed by itself"
    assert DATA.problem(str(data / "secret_key"))


@pytest.mark.parametrize("text", ["/etc/passwd", "/data/../etc", "relative/path"])
def test_a_path_that_looks_forbidden_is_not_looked_up(
    text: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ECHOSCOPE_MODEL_FOLDERS = ["/data"]
    touched: list[str] = []
    packages = sysconfig.get_path("purelib")  # a connection to Redis reads the version of its library

    def watched(method: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, *rest: Any, **more: Any) -> Any:
            if not str(path).startswith(packages):
                touched.append(f"{method} {path}")
            return original(path, *rest, **more)

        return call

    with monkeypatch.context() as meanwhile:
        for method in ("resolve", "stat", "is_dir", "exists", "glob", "open"):
            meanwhile.setattr(Path, method, watched(method, getattr(Path, method)))
        assert MODELS.problem(text)
        assert model_shapes.model_shape(text) is None
    assert touched == []


def test_the_shape_of_a_model_is_read_from_listed_folders_only(tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "var"
    model = tmp_path / "models" / "one"
    model.mkdir(parents=True)
    shutil.copy(POCKET_CHECKPOINT / "config.json", model)
    assert model_shapes.model_shape(str(model)) is None
    settings.ECHOSCOPE_MODEL_FOLDERS = [str(model.parent)]
    assert model_shapes.model_shape(str(model)) is not None
    assert model_shapes.model_shape("pocket") is not None
    assert model_shapes.model_shape("Qwen/Qwen2.5-0.5B-Instruct") is not None
    assert model_shapes.model_shape("someone/Else-13B") is None
