"""Methods of the client that send runs trained elsewhere: journals and the images that their turns refer to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from echoscope import models
from echoscope.image_upload import Report
from echoscope.journal import push
from echoscope.launch_body import Visibility
from echoscope.transport import Transport


class JournalUploads(ABC):
    """Part of echoscope.client.Client."""

    transport: Transport
    _sleep: Callable[[float], None]

    @abstractmethod
    def run(self, run: str) -> models.RunDetail:
        """One run with its configuration."""

    def push_journal(
        self,
        path: str | Path,
        *,
        follow: bool = False,
        run: str | None = None,
        title: str = "",
        visibility: Visibility = "team",
        skip_bad_lines: bool = False,
        skip_bad_images: Report | None = None,
        progress: Callable[[models.RunDetail, int, int], None] | None = None,
    ) -> models.RunDetail:
        """Send a run's journal (its folder, or the file), from the last byte received by the site.

        `follow` continues while the journal grows, until its run has ended; an exception such as KeyboardInterrupt ends
        it cleanly. `progress` receives the run, the bytes received by the site and the size of the file.
        `skip_bad_images` receives what is wrong with an image that is missing or refused; without it, that ends the
        upload.
        """
        return push(
            self,
            Path(path),
            follow=follow,
            run=run,
            title=title,
            visibility=visibility,
            skip_bad_lines=skip_bad_lines,
            skip_bad_images=skip_bad_images,
            progress=progress,
            sleep=self._sleep,
        )

    def import_journal(self, data: bytes, *, packed: bool, key: str, **query: Any) -> models.RunDetail:
        """Create a run from the beginning of a journal; `packed`: compressed with gzip."""
        headers = {"Content-Type": _media(packed), "Idempotency-Key": key}
        answer = self.transport.send(
            "POST", "/runs/import", query=query, content=data, headers=headers, repeatable=True
        )
        return models.RunDetail.model_validate(answer.json())

    def append_journal(self, run: str, offset: int, data: bytes, *, packed: bool, **query: Any) -> models.Journal:
        """Send the next part of a journal. Raises Conflict with the expected offset in details["offset"]."""
        answer = self.transport.send(
            "PUT",
            f"/runs/{run}/journal",
            query={"offset": offset, **query},
            content=data,
            headers={"Content-Type": _media(packed)},
            repeatable=True,
        )
        return models.Journal.model_validate(answer.json())

    def put_image(self, run: str, sha256: str, media_type: str, data: bytes) -> models.ObservationImage:
        """Send an image that turns refer to, before these turns. The same one again changes nothing."""
        answer = self.transport.send(
            "PUT",
            f"/runs/{run}/images/{sha256}",
            content=data,
            headers={"Content-Type": media_type},
            repeatable=True,
        )
        return models.ObservationImage.model_validate(answer.json())

    def image(self, trajectory: str, sha256: str, path: Path) -> Path:
        """Save an image that a turn of the trajectory refers to at `path`."""
        return self.transport.download(f"/trajectories/{trajectory}/images/{sha256}", path)


def _media(packed: bool) -> str:
    return "application/gzip" if packed else "application/x-ndjson"
