"""Addresses of environments and of the games on them."""

from django.urls import path

from webapp.play import views

urlpatterns = [
    path("environments", views.environments, name="environments"),
    path("environments/<str:name>", views.environment, name="environment"),
    path("environments/<str:name>/play", views.play, name="environment-play"),
]
