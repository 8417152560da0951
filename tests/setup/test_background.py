"""Programs in the background of a command: their output, exit code and end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from bootstrap.background import Background
from webapp.services.child_process import command_line

HELLO = "import os, sys; print('hello', os.environ['GREETED']); sys.exit(3)"
ENDLESS = "import time; time.sleep(600)"


def test_output_is_kept_in_the_file_and_shown_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "logs" / "hello.txt"
    with Background([sys.executable, "-c", HELLO], log, {"GREETED": "world"}) as program:
        assert capsys.readouterr().out == ""
        assert program.show() == 3
    assert capsys.readouterr().out == log.read_text() == "hello world\n"


def test_a_failing_block_terminates_the_program(tmp_path: Path) -> None:
    program = Background([sys.executable, "-c", ENDLESS], tmp_path / "endless.txt")

    def block() -> None:
        with program:
            while not command_line(program.pid):  # empty for a moment while the kernel starts it
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        block()
    assert not command_line(program.pid)
