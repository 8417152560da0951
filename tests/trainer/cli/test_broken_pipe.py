"""`| head` ends a command without a traceback."""

import os
import subprocess
import sys

import pytest

from trainer.cli.broken_pipe import until_reader_gone


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["-m", "trainer", "presets"], marks=pytest.mark.nightly),
        pytest.param(["-m", "trainer", "study", "--list"], marks=pytest.mark.nightly),
        pytest.param(["-m", "trainer", "--help"], marks=pytest.mark.nightly),
        pytest.param(["manage.py", "help"], marks=pytest.mark.nightly),
        ["-c", "from trainer.cli.broken_pipe import *; until_reader_gone(lambda: print('line\\n' * 100_000) or 0)"],
    ],
    ids=["presets", "studies", "help", "site", "more than a pipe holds"],
)
def test_a_reader_that_goes_away_is_no_error(command):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write) as pipe:
        done = subprocess.run([sys.executable, *command], stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_broken_pipe_elsewhere_is_an_error(capfd):
    def fail():
        raise BrokenPipeError("a worker is gone")

    with pytest.raises(BrokenPipeError, match="a worker is gone"):
        until_reader_gone(fail)
