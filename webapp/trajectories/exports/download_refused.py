"""The refusal of a download, apart from the exports: their libraries take 50 MB of each process that imports them."""


class DownloadRefused(Exception):
    """The download is not possible. `status`: of the HTTP response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
