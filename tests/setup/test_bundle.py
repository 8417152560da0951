"""Bundled scripts of the pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bootstrap import bundle
from bootstrap.progress import SetupError


def test_each_script_of_a_template_is_bundled_with_all_of_its_modules(tmp_path: Path) -> None:
    bundle.bundle(tmp_path / "static")
    files = {path.relative_to(tmp_path / "static").as_posix() for path in (tmp_path / "static").rglob("*.js")}
    assert set(bundle.entry_points()) <= files
    for name in files:
        text = (tmp_path / "static" / name).read_text(encoding="utf-8")
        for target in re.findall(r'(?:from|import)\(?"(\.[^"]+)"', text):
            assert (tmp_path / "static" / name).parent.joinpath(target).is_file(), f"{name} imports {target}"
        assert 'import "/' not in text


def test_unchanged_bundles_keep_their_time_and_those_of_removed_scripts_go(tmp_path: Path) -> None:
    bundle.bundle(tmp_path / "static")
    site = tmp_path / "static" / bundle.SITE
    before = site.stat().st_mtime_ns
    (tmp_path / "static" / "js" / "chunks" / "of-an-older-version.js").touch()
    bundle.bundle(tmp_path / "static")
    assert site.stat().st_mtime_ns == before
    assert not (tmp_path / "static" / "js" / "chunks" / "of-an-older-version.js").exists()


def test_a_script_with_an_error_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"js/wrong.js": "const = 1;"}
    monkeypatch.setattr(bundle, "entry_points", lambda: wrong)
    with pytest.raises(SetupError, match=r"js/wrong\.js:1"):
        bundle.bundle(tmp_path / "static")
