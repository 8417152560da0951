"""URL patterns of the websockets, and the response to other paths."""

from collections.abc import Awaitable, Callable
from typing import Any

from django.urls import path

from webapp.live.annotation_consumer import AnnotationsConsumer
from webapp.live.consumer_base import NOT_FOUND
from webapp.live.inbox_consumer import InboxConsumer
from webapp.live.run_consumer import RunConsumer

websocket_urlpatterns = [
    path("ws/runs/<str:slug>/", RunConsumer.as_asgi()),
    path("ws/inbox/", InboxConsumer.as_asgi(), kwargs={"slug": ""}),
    path("ws/t/<str:slug>/", AnnotationsConsumer.as_asgi()),
]

Application = Callable[[Any, Any, Any], Awaitable[Any]]


def close_unknown_paths(application: Application) -> Application:
    """Serve paths that match a pattern; close other sockets with 4404, without an error in the log.

    Sockets with a NUL character in the path or a cookie, which no query can contain, are closed as well.
    """

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        cookies = dict(scope["headers"]).get(b"cookie", b"")
        path = scope["path"].lstrip("/")
        is_known = any(pattern.pattern.match(path) for pattern in websocket_urlpatterns)
        if is_known and "\0" not in path and b"\\000" not in cookies:
            await application(scope, receive, send)
            return
        await receive()  # the handshake
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": NOT_FOUND})

    return answer
