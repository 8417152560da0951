"""ASGI application: pages over HTTP, live updates over websockets."""

import gc
import os

from webapp.core.private_files import set_umask
from webapp.services.open_files import raise_open_files_limit

set_umask()
raise_open_files_limit()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
os.environ.setdefault("ECHOSCOPE_DB_POOL", "1")

import django  # noqa: E402

django.setup()  # models can be imported only afterwards

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.core.handlers.asgi import ASGIHandler  # noqa: E402
from django.urls import get_resolver  # noqa: E402

from webapp.live.origins import OwnOrigin  # noqa: E402
from webapp.live.routing import close_unknown_paths, websocket_urlpatterns  # noqa: E402
from webapp.operations.request_bodies import limit_bodies  # noqa: E402
from webapp.operations.requests import counted  # noqa: E402

websockets = URLRouter(websocket_urlpatterns)
application = ProtocolTypeRouter(
    {
        "http": limit_bodies(ASGIHandler()),
        "websocket": counted(OwnOrigin(close_unknown_paths(AuthMiddlewareStack(websockets)))),
    }
)

_ = get_resolver().url_patterns  # every view is loaded before the first request
gc.collect()
gc.freeze()  # a collection of the loaded modules would block every socket for 0.2 s
