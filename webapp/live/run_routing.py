"""Which websocket address leads where."""

from django.urls import path

from webapp.live.run_consumer import RunConsumer

websocket_urlpatterns = [path("ws/runs/<str:slug>/", RunConsumer.as_asgi())]
