"""Steps of a start that may fail without keeping the site from its work."""

from __future__ import annotations

import pytest

from webapp.services import startup


def test_a_folder_that_cannot_be_written_keeps_no_site_from_starting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise PermissionError(13, "Permission denied", "build")

    monkeypatch.setattr(startup, "bundle", refuse)
    startup.bundle_scripts()
    assert "were not bundled" in capsys.readouterr().out
