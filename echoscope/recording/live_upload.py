"""Uploads a journal while it is being written, in a thread of the training process."""

from __future__ import annotations

import threading
from pathlib import Path

from echoscope.client import Client
from echoscope.errors import Refused
from echoscope.recording.harmless import OnceWarnings

RETRY_SECONDS = 30.0
TEMPORARY = {408, 409, 425, 429}
"""Statuses below 500 after which another attempt may succeed."""


class LiveUpload:
    """Sends the journal until finish(). Training never fails because of it: the journal can be pushed later.

    Lines that the site cannot read are left out and named in a warning. A site that is unavailable, or temporarily does
    not accept the journal, is tried again; a site that refuses it is not.

    Attributes:
        url: address of the run on the site, once it is there.
    """

    def __init__(self, folder: Path, url: str, token: str, warnings: OnceWarnings) -> None:
        self.url: str | None = None
        self._folder, self._site, self._token, self._warnings = folder, url, token, warnings
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, name="echoscope-upload", daemon=True)
        self._thread.start()

    def finish(self, timeout: float) -> None:
        """Wait until everything is sent, at most `timeout` seconds."""
        self._thread.join(min(max(0.0, timeout), threading.TIMEOUT_MAX))
        if self._thread.is_alive():
            self._stop.set()
            self._warn(f"The journal could not be sent within {timeout:.0f} s.")

    def _send(self) -> None:
        while not self._stop.is_set():
            try:
                with Client(self._site, self._token) as site:
                    self.url = site.push_journal(
                        self._folder,
                        follow=True,
                        skip_bad_lines=True,
                        skip_bad_images=lambda problem: self._warn_of_part("image", problem),
                        report=lambda problem: self._warn_of_part("event", problem),
                    ).url
                return
            except Exception as error:  # noqa: BLE001 - of the network, the site or the file: training goes on
                if isinstance(error, Refused) and error.status < 500 and error.status not in TEMPORARY:
                    self._warn(f"The site refused the journal, which is not sent any further: {error}")
                    return
                self._warn(str(error) or type(error).__name__)
                self._stop.wait(RETRY_SECONDS)

    def _warn_of_part(self, kind: str, problem: str) -> None:
        self._warnings.once(f"upload of an {kind}", f"{problem} Later ones are left out without a warning.")

    def _warn(self, problem: str) -> None:
        self._warnings.once(
            f"upload: {problem}",
            f"{problem} The journal in {self._folder} is complete: `python -m echoscope push {self._folder}` sends it.",
        )
