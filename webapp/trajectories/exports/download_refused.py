"""Refusal of a download, in a module without the exports, whose libraries take 50 MB of each process."""


class DownloadRefused(Exception):
    """The download is not possible. `status` is the status of the HTTP response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
