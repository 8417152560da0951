"""Data files: regular files of a limited size, whatever a path names."""

import os
import socket
from pathlib import Path

import pytest

import envs
from envs.sokoban import level_files
from envs.support import data_files, json_records
from envs.support.data_files import MIB, DataFileError
from envs.webshop import catalogue_files

LIMIT = 100


def special_files(folder: Path) -> dict[str, Path]:
    """A device without an end, a pipe without a writer, a folder, and a missing file."""
    os.mkfifo(folder / "pipe")
    return {"device": Path("/dev/zero"), "pipe": folder / "pipe", "folder": folder, "missing": folder / "missing"}


@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_only_regular_files_are_read(kind: str, tmp_path: Path) -> None:
    path = special_files(tmp_path)[kind]
    for read in (data_files.status, data_files.open_binary, data_files.read_bytes):
        with pytest.raises(DataFileError, match=r"^is not a regular file$"):
            read(path, LIMIT)


def test_a_socket_and_an_impossible_name_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises(DataFileError):
            data_files.read_bytes(tmp_path / "socket", LIMIT)
    for name in ("a\0b", "a" * 5000):
        with pytest.raises(DataFileError):
            data_files.read_bytes(Path(name), LIMIT)


def test_a_file_at_the_limit_is_read_and_a_larger_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "levels.txt"
    path.write_bytes(b"x" * LIMIT)
    assert data_files.read_bytes(path, LIMIT) == b"x" * LIMIT
    path.write_bytes(b"x" * (LIMIT + 1))
    with pytest.raises(DataFileError, match=r"^is larger than 0 MiB"):
        data_files.read_bytes(path, LIMIT)
    with path.open("wb") as file:
        file.truncate(3 * MIB)
    with pytest.raises(DataFileError, match=r"^is larger than 2 MiB, the maximum for such a file; split it"):
        data_files.status(path, 2 * MIB)


@pytest.mark.parametrize(
    "environment, settings",
    [
        ("Boxoban", {"path": "/dev/zero"}),
        ("Countdown", {"path": "/dev/zero"}),
        ("MetaMathQA", {"path": "/dev/zero"}),
    ],
)
def test_no_environment_reads_a_device(environment: str, settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"/dev/zero.*is not a regular file"):
        envs.make(environment, settings).reset(seed=1)


def test_a_shop_reads_no_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "items_shuffle.json")
    with pytest.raises(catalogue_files.CatalogueError, match=r"items_shuffle\.json cannot be read \(is not a regular"):
        envs.make("WebShop", {"path": str(tmp_path)}).reset(seed=1)


def test_limits_hold_for_records_and_folders_of_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text('{"a": 1}\n' + '{"a": "' + "x" * 50 + '"}\n')
    monkeypatch.setattr(json_records, "MAX_LINE", 40)
    with pytest.raises(json_records.RecordsError, match=r"line 2: is longer than 40 characters"):
        list(json_records.read_records(records))
    monkeypatch.setattr(json_records, "MAX_BYTES", 20)
    with pytest.raises(json_records.RecordsError, match="is larger than"):
        json_records.stamp(records)
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("######\n#@$ .#\n######\n")
    assert len(level_files.find_levels(tmp_path)) == 3
    monkeypatch.setattr(level_files, "MAX_FILES", 2)
    with pytest.raises(level_files.LevelFileError, match="more than 2 level files"):
        level_files.find_levels(tmp_path)
