"""Which websocket address leads where."""

from django.urls import path

from webapp.runs.live import RunConsumer

websocket_urlpatterns = [path("ws/runs/<str:slug>/", RunConsumer.as_asgi())]
