"""URLs of environments and of the games on them."""

from django.urls import path

from webapp.pages.play import play_views

urlpatterns = [
    path("environments", play_views.environments, name="environments"),
    path("environments/<str:name>", play_views.environment, name="environment"),
    path("environments/<str:name>/play", play_views.play, name="environment-play"),
]
