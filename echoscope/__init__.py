"""Recorder and client of an Echoscope site.

`echoscope.init(…)` records a run that another trainer trains (`echoscope.recorder`); `echoscope.Client` is the HTTP API
for scripts, `python -m echoscope` for the shell. Depends only on httpx and pydantic.
"""

from echoscope.client import Client
from echoscope.recorder import Recorder, Trajectory, attach, init

__all__ = ["Client", "Recorder", "Trajectory", "attach", "init"]
