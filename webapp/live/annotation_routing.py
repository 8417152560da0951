"""Which websocket address leads where."""

from django.urls import path

from webapp.live.annotation_consumer import AnnotationsConsumer

websocket_urlpatterns = [path("ws/t/<str:slug>/", AnnotationsConsumer.as_asgi())]
