"""Identity of the data folder: one for all who see it, created once, and unknown rather than wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from webapp.worker.files import data_folder


def test_all_who_see_a_folder_agree_on_its_identity(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        (identity,) = set(pool.map(data_folder.identify, [tmp_path] * 32))
    assert identity == data_folder.identify(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [data_folder.ID_FILE], "no drafts are left"


def test_two_folders_have_two_identities(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    assert data_folder.identify(one) != data_folder.identify(other)


def test_a_folder_that_cannot_be_written_has_none(tmp_path: Path) -> None:
    assert data_folder.identify(tmp_path / "missing") == ""
    (tmp_path / data_folder.ID_FILE).write_bytes(b"\xff\xfe")
    assert data_folder.identify(tmp_path) == ""
