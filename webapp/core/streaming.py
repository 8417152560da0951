"""Streaming downloads, compressed if the client accepts gzip, under WSGI and ASGI.

An ASGI server would collect a synchronous iterator before sending the first byte, so it gets an asynchronous iterator,
which produces each chunk in the request's thread.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.wsgi import WSGIRequest
from django.db import connection
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.cache import patch_vary_headers
from django.utils.http import content_disposition_header

COMPRESSION_LEVEL = 5
GZIP = 31  # zlib wbits for a gzip header


def streamed(
    request: HttpRequest, chunks: Iterator[bytes], content_type: str, name: str, *, compressible: bool
) -> StreamingHttpResponse:
    """Return a streamed download with the file name `name`."""
    packed = compressible and accepts_gzip(request)
    body = gzipped(chunks) if packed else chunks
    response = StreamingHttpResponse(
        body if isinstance(request, WSGIRequest) else _asynchronous(body), content_type=content_type
    )
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["Cache-Control"] = "private, no-store"
    response["X-Accel-Buffering"] = "no"  # a buffering proxy would wait for the end
    if packed:
        response["Content-Encoding"] = "gzip"
    if compressible:
        patch_vary_headers(response, ["Accept-Encoding"])
    return response


def accepts_gzip(request: HttpRequest) -> bool:
    """Return True if the client accepts gzip; `gzip;q=0` refuses it."""
    for part in request.headers.get("Accept-Encoding", "").lower().split(","):
        coding, _, weight = part.strip().partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def gzipped(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Compress the chunks; each chunk is sent before the next is produced."""
    packer = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, GZIP)
    for chunk in chunks:
        if packed := packer.compress(chunk):
            yield packed
    yield packer.flush()


def release_connection() -> None:
    """Release the database connection while a chunk is sent, so that a slow client does not block it."""
    if not connection.in_atomic_block:
        connection.close()


async def _asynchronous(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    following = sync_to_async(lambda: next(chunks, None))
    while (chunk := await following()) is not None:
        yield chunk
