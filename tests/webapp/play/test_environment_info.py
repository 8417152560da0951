"""Page of environments, third-party ones included."""

from __future__ import annotations

import html
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from envs.base import EnvSettings
from tests.envs.broken_env import Trouble, TroubleSettings
from tests.envs.plugins import offering
from tests.webapp.page_requests import Visitors, who
from webapp.play import environment_info

__all__ = ["who"]


class LeavingSettings(TroubleSettings):
    """Its process ends at the first reset."""

    when: str = "reset"
    how: str = "leave"


class Leaving(Trouble):
    """Would end the web process."""

    Settings: ClassVar[type[EnvSettings]] = LeavingSettings


@pytest.fixture
def leaving(tmp_path: Path) -> Iterator[None]:
    with offering(tmp_path, Leaving="tests.webapp.play.test_environment_info:Leaving"):
        environment_info._made.cache_clear()
        yield
    environment_info._made.cache_clear()


@pytest.mark.usefixtures("leaving")
def test_a_crashing_environment_is_reported_and_the_page_loads(who: Visitors) -> None:
    page = html.unescape(who.owner.get("/environments").content.decode())
    assert "It cannot be shown: the environment failed" in page
    assert 'id="Leaving"' in page
    assert 'data-sample="Leaving"' not in page
    assert 'data-sample="Sokoban"' in page


def test_the_page_does_not_wait_for_a_compiler() -> None:
    code = """
import sys, django
django.setup()
import envs
from webapp.play import environment_info
assert not any(environment_info.sample(name).problem for name in envs.names())
sys.exit('numba' in sys.modules)
"""
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
