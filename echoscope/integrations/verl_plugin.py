"""Plugin of verl, which imports this module in each of its processes and so gets the `Tracking` backend `echoscope`.

verl trains in Ray processes, where install() in the script that started it has no effect. It finds the plugin by its
entry point, or as VERL_USE_EXTERNAL_MODULES=echoscope.integrations.verl_plugin. ECHOSCOPE_FOLDER is the folder of the
run, and ECHOSCOPE_URL and ECHOSCOPE_TOKEN name the site to which it is sent while it grows. ECHOSCOPE_ATTEMPTS,
ECHOSCOPE_EVERY and ECHOSCOPE_SUCCESS_AT are the fields of `WatchLimits`.
"""

from __future__ import annotations

import importlib
import os

from echoscope.integrations.verl_tracking import install
from echoscope.integrations.verl_watch import WatchLimits
from echoscope.recording.harmless import warn
from echoscope.recording.json_values import as_text

try:
    install(
        importlib.import_module("verl.utils.tracking").Tracking,
        folder=os.environ.get("ECHOSCOPE_FOLDER") or None,
        url=os.environ.get("ECHOSCOPE_URL") or None,
        token=os.environ.get("ECHOSCOPE_TOKEN") or None,
        limits=WatchLimits.stated_in(os.environ),
    )
except Exception as error:  # noqa: BLE001 - another version of verl, or an installation that fails in its own way
    warn(f"The backend echoscope is not available in this training of verl: {as_text(error)}.")
