"""Which tests with Ray's actors run: a core always, the others, which take about ten minutes, on request."""

from __future__ import annotations

import os

import pytest

on_request = pytest.mark.skipif(
    not os.environ.get("ECHOSCOPE_TEST_RAY"), reason="set ECHOSCOPE_TEST_RAY=1 to run all tests with Ray's actors"
)
