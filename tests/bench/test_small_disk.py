"""The disk that the soak test fills: full means full, for others too, and afterwards nothing is left of it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.soak.disturbances import FULL_DISK, KINDS, plan
from bench.soak.small_disk import FILLER, SmallDisk

MIB = 2**20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk.mount(tmp_path / "disk", 3 * MIB)
    if made is None:
        pytest.skip("mounting a disk takes root")
    yield made
    if (made.folder / "before").exists():
        made.unmount()


def test_nothing_can_be_written_to_a_full_disk_until_it_is_freed(disk: SmallDisk, tmp_path: Path) -> None:
    before = disk.folder / "before"
    before.write_bytes(b"kept")
    disk.fill()
    with pytest.raises(OSError, match="No space left") as error, before.open("ab") as file:
        file.write(b"x" * 8192)
    assert error.value.errno == errno.ENOSPC
    disk.free()
    with before.open("ab") as file:
        file.write(b"x" * MIB)
    disk.unmount(tmp_path / "kept")
    kept = (tmp_path / "kept" / "before").read_bytes()
    assert kept.startswith(b"kept")
    assert len(kept) > MIB
    assert not (tmp_path / "kept" / FILLER).exists()
    assert list(disk.folder.iterdir()) == [], "the folder below the mount"


@pytest.mark.parametrize("kinds", [set(KINDS), set(KINDS) - {FULL_DISK}, {FULL_DISK}])
def test_the_plan_has_the_wanted_kinds(kinds: set[str]) -> None:
    order = plan(3, kinds)
    assert {next(order)[0] for _ in range(500)} == kinds
