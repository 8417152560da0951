"""URL patterns of the websockets."""

from django.urls import path

from webapp.live.annotation_consumer import AnnotationsConsumer
from webapp.live.run_consumer import RunConsumer

websocket_urlpatterns = [
    path("ws/runs/<str:slug>/", RunConsumer.as_asgi()),
    path("ws/t/<str:slug>/", AnnotationsConsumer.as_asgi()),
]
