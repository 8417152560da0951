"""Which address leads where. What the pages do is decided in the views."""

from django.contrib import admin
from django.urls import include, path

from webapp.services.welcome import welcome

urlpatterns = [
    path("welcome/<int:user_id>/<str:token>", welcome, name="welcome"),
    path("admin/", admin.site.urls),
    path("", include("webapp.operations.urls")),
    path("", include("webapp.teams.urls")),
    path("", include("webapp.alerts.urls")),
    path("", include("webapp.annotations.urls")),
    path("api/", include("webapp.api.urls")),
    path("", include("webapp.runs.urls")),
    path("", include("webapp.play.urls")),
    path("", include("webapp.trajectories.urls")),
]
