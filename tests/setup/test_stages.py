"""Stages of a test command: real programs side by side or in turn, with their output in order."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.suite.stages import Stages


@pytest.mark.parametrize("side_by_side", [True, False])
def test_output_comes_in_order_and_the_table_names_what_failed(
    side_by_side: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    touch = f"open({str(other)!r}, 'w'); print('second')"
    # Side by side, the first program ends only after the second one has started.
    wait = f"import os, sys\nwhile {side_by_side} and not os.path.exists({str(other)!r}): pass\n"
    wait += "print('first'); sys.exit(3)"
    programs = {"one": [sys.executable, "-c", wait], "two": [sys.executable, "-c", touch]}
    stages = Stages(tmp_path / "logs")
    assert stages.run(programs, side_by_side=side_by_side) == 3
    stages.show()
    output = capsys.readouterr().out
    assert output.startswith("\n$ one\nfirst\n\n$ two\nsecond\n")
    assert re.search(r"^one +\d+  exit code 3\ntwo +\d+  passed\ntotal +\d+$", output, re.MULTILINE)
    assert (tmp_path / "logs" / "one.txt").read_text() == "first\n"
