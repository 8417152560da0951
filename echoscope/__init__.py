"""Recorder and client of an Echoscope site.

`echoscope.init(…)` records a run that another trainer trains (`echoscope.recording`), `echoscope.integrations` has the
callbacks of trainers, and `echoscope.importers` reads files of other tools; `echoscope.Client` is the HTTP API for
scripts, `python -m echoscope` for the shell; `echoscope.player(…)` plays a trajectory in a notebook. Depends only on
httpx and pydantic.
"""

from echoscope.client import Client
from echoscope.notebook.player import Player, player
from echoscope.recording.recorder import Recorder, attach, init
from echoscope.recording.trajectory import Trajectory

__all__ = ["Client", "Player", "Recorder", "Trajectory", "attach", "init", "player"]
