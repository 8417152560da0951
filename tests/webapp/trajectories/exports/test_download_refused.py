"""Supervisor, worker and clock refuse no downloads, and do not carry the libraries of exports."""

from __future__ import annotations

import os
import subprocess
import sys

from webapp.services.addresses import ROOT


def test_programs_without_pages_do_not_load_the_libraries_of_exports() -> None:
    code = "import sys, django; django.setup(); import webapp.services.startup; sys.exit('pyarrow' in sys.modules)"
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
