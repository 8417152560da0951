"""ASGI application: pages over HTTP, live updates over websockets."""

import gc
import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
os.environ.setdefault("ECHOSCOPE_DB_POOL", "1")

import django

django.setup()  # models can be imported only afterwards

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.core.handlers.asgi import ASGIHandler  # noqa: E402
from django.urls import get_resolver  # noqa: E402

from webapp.live.routing import websocket_urlpatterns  # noqa: E402
from webapp.operations.requests import counted  # noqa: E402

websockets = URLRouter(websocket_urlpatterns)
application = ProtocolTypeRouter(
    {
        "http": ASGIHandler(),
        "websocket": counted(AllowedHostsOriginValidator(AuthMiddlewareStack(websockets))),
    }
)

_ = get_resolver().url_patterns  # every view is loaded before the first request
gc.collect()
gc.freeze()  # a collection of the loaded modules would block every socket for 0.2 s
