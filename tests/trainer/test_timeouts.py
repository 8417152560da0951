"""Time limits: their defaults, and the environment variables that change them."""

from __future__ import annotations

import pytest

from trainer import timeouts
from trainer.cli import main
from trainer.journal.protocol import BAD_CONFIGURATION


def test_a_variable_changes_its_limit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOSCOPE_TIMEOUT_CLUSTER_START", " 2.5 ")
    changed = {limit.variable for limit in timeouts.TIMEOUTS if limit.seconds != limit.default}
    assert changed == {"ECHOSCOPE_TIMEOUT_CLUSTER_START"}
    assert str(timeouts.CLUSTER_START) == "ECHOSCOPE_TIMEOUT_CLUSTER_START = 2.5 seconds"


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "5 s", "1,5"])
def test_a_command_with_an_unusable_limit_is_refused_before_its_work(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(timeouts.HOSTED_REQUEST.variable, text)
    assert main.main(["presets"]) == BAD_CONFIGURATION
    sentence = f"ECHOSCOPE_TIMEOUT_HOSTED_REQUEST must be a number of seconds above 0, not {text!r}"
    assert sentence in capsys.readouterr().err
