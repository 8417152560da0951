"""Upload of a journal while it is being written, by a thread of the process that trains."""

from __future__ import annotations

import threading
import time
import warnings
from pathlib import Path

from echoscope.client import Client
from echoscope.errors import EchoscopeError

RETRY_SECONDS = 30.0


class LiveUpload:
    """Sends the journal until finish(). Training never fails because of it: the journal can be pushed later.

    Attributes:
        url: address of the run on the site, once it is there.
    """

    def __init__(self, folder: Path, url: str, token: str) -> None:
        self.url: str | None = None
        self._folder, self._site, self._token = folder, url, token
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, name="echoscope-upload", daemon=True)
        self._thread.start()

    def finish(self, timeout: float) -> None:
        """Wait until everything is sent, at most `timeout` seconds."""
        end = time.monotonic() + timeout
        self._thread.join(max(0.0, end - time.monotonic()))
        if self._thread.is_alive():
            self._stop.set()
            self._warn(f"The journal could not be sent within {timeout:.0f} s.")

    def _send(self) -> None:
        while not self._stop.is_set():
            try:
                with Client(self._site, self._token) as site:
                    self.url = site.push_journal(self._folder, follow=True, skip_bad_images=self._warn_of_image).url
                return
            except EchoscopeError as error:
                self._warn(str(error))
                self._stop.wait(RETRY_SECONDS)

    def _warn_of_image(self, problem: str) -> None:
        warnings.warn(problem, RuntimeWarning, stacklevel=2)

    def _warn(self, problem: str) -> None:
        warnings.warn(
            f"{problem} The journal in {self._folder} is complete: `python -m echoscope push {self._folder}` sends it.",
            RuntimeWarning,
            stacklevel=2,
        )
