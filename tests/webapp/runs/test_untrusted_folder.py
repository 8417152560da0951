"""Folders that a trainer fills: nothing outside of them is read, changed or removed, and nothing is waited for."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from webapp.runs import untrusted_folder
from webapp.runs.untrusted_folder import FileRefused, UntrustedFolder

SECRET = b"the signing key"
Trap = Callable[[Path, Path], None]
"""Puts something hostile at the first path, which leads to the second one if it leads anywhere."""


def fifo(place: Path, outside: Path) -> None:
    os.mkfifo(place)


def device(place: Path, outside: Path) -> None:
    if os.getuid():
        pytest.skip("only root makes device nodes")
    os.mknod(place, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero never ends


def unix_socket(place: Path, outside: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux binds a socket below an open folder")
    with socket.socket(socket.AF_UNIX) as server:
        handle = os.open(place.parent, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{handle}/{place.name}")  # the whole path may be too long for a socket
        os.close(handle)


def sparse(place: Path, outside: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1 << 40)


def folder_in_the_way(place: Path, outside: Path) -> None:
    (place / "deeper").mkdir(parents=True)


TRAPS: dict[str, Trap] = {
    "link": lambda place, outside: place.symlink_to(outside),
    "relative link": lambda place, outside: place.symlink_to(os.path.relpath(outside, place.parent)),
    "magic link": lambda place, outside: place.symlink_to("/proc/self/environ"),
    "hard link": lambda place, outside: os.link(outside, place),
    "pipe": fifo,
    "device": device,
    "socket": unix_socket,
    "sparse": sparse,
    "folder": folder_in_the_way,
}


ODD_NAMES = (b"\xff\xfe", b"two\nlines", b"..\\..\\evil.exe", "\u202egnp.exe".encode())


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside" / "secret"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> UntrustedFolder:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    return UntrustedFolder(tmp_path / "run")


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name", ["log.txt", "checkpoints/weights"])
def test_only_plain_files_are_opened(trap: str, name: str, folder: UntrustedFolder, outside: Path) -> None:
    TRAPS[trap](folder.path / name, outside)
    for work in (folder.open, folder.append, folder.create, lambda name: folder.read(name, 1 << 20)):
        with pytest.raises(FileRefused, match="not a plain file of this run"):
            work(name)
    assert not folder.has(name)
    listing = folder.list_files()
    assert listing.files == {}
    assert listing.refused == ([] if trap == "folder" else [name])
    assert outside.read_bytes() == SECRET
    if trap != "folder":
        folder.replace(name, b"ours")
        assert folder.read(name, 4) == b"ours"
    folder.remove(name)
    assert not os.path.lexists(folder.path / name)
    assert outside.read_bytes() == SECRET


def test_no_way_leads_out_of_the_folder(folder: UntrustedFolder, outside: Path) -> None:
    (folder.path / "away").symlink_to(outside.parent)
    for name in ("away/secret", "../outside/secret", "checkpoints/../../outside/secret", str(outside), "", ".."):
        for work in (folder.open, folder.append, folder.create, folder.make_folder):
            with pytest.raises(FileRefused):
                work(name)
        with pytest.raises(FileRefused):
            folder.replace(name, b"damage")
        folder.remove(name)
    (folder.path / "own").write_bytes(b"own")
    for old, new in (("away/secret", "stolen"), ("own", "away/secret"), ("own", "../outside/secret")):
        with pytest.raises(FileRefused):
            folder.rename(old, new)
    assert (folder.list_files("away").files, folder.folders("away")) == ({}, [])
    assert folder.folders() == ["checkpoints"]
    assert [path.name for path in outside.parent.iterdir()] == ["secret"]
    assert outside.read_bytes() == SECRET


def test_a_file_that_is_exchanged_after_it_was_looked_at_is_refused(
    folder: UntrustedFolder, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process of the trainer may do at any moment."""
    place, real = folder.path / "log.txt", os.stat
    place.write_bytes(b"log")

    def exchanging(path: object, **options: object) -> os.stat_result:
        facts: os.stat_result = real(path, **options)  # type: ignore[call-overload]
        if path == "log.txt":
            place.unlink()
            place.symlink_to(outside)
        return facts

    monkeypatch.setattr(untrusted_folder.os, "stat", exchanging)
    with pytest.raises(FileRefused):
        folder.open("log.txt")


def test_plain_files_are_read_written_listed_and_removed(folder: UntrustedFolder) -> None:
    folder.replace("checkpoints/000001/adapter/weights", b"w" * 10)
    with folder.append("log.txt") as log:
        log.write(b"one\n")
    with folder.append("log.txt") as log:
        log.write(b"two\n")
    with folder.create("checkpoints/000001/state.json", 0o444) as state:
        state.write(b"{}")
    assert folder.read("log.txt", 8) == b"one\ntwo\n"
    assert list(folder.blocks("log.txt", 3)) == [b"one", b"\ntw", b"o\n"]
    assert list(folder.list_files("checkpoints").files) == [
        "checkpoints/000001/adapter/weights",
        "checkpoints/000001/state.json",
    ]
    assert folder.list_files().refused == []
    folder.rename("checkpoints/000001", "checkpoints/000002")
    folder.sync("checkpoints")
    assert folder.folders("checkpoints") == ["000002"]
    with pytest.raises(FileRefused, match="more than 7 bytes"):
        folder.read("log.txt", 7)
    with pytest.raises(FileNotFoundError) as missing:
        folder.open("checkpoints/000001/state.json")
    assert not isinstance(missing.value, FileRefused)
    folder.delete()
    assert not folder.path.exists()


def test_a_file_that_grows_while_it_is_sent_has_an_end(folder: UntrustedFolder) -> None:
    with folder.append("log.txt") as log:
        log.write(b"x" * 8)
        sent = b""
        for block in folder.blocks("log.txt", 2):
            sent += block
            log.write(b"yyyy")
    assert sent == b"x" * 8


def test_names_that_no_archive_can_hold_are_refused(folder: UntrustedFolder) -> None:
    for name in ODD_NAMES:
        (folder.path / os.fsdecode(name)).write_bytes(b"x")
    assert folder.list_files().files == {}
    assert len(folder.list_files().refused) == 4


def test_a_tree_deeper_than_any_stack_is_listed_and_removed(folder: UntrustedFolder) -> None:
    handle = os.open(folder.path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=handle)
        below = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    listing = folder.list_files()
    assert (listing.files, len(listing.refused)) == ({}, 1)
    folder.remove("d")
    assert os.listdir(folder.path) == ["checkpoints"]


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_a_closed_folder_is_named(folder: UntrustedFolder) -> None:
    (folder.path / "checkpoints").chmod(0)
    try:
        assert folder.list_files().refused == ["checkpoints"]
    finally:
        (folder.path / "checkpoints").chmod(0o700)
