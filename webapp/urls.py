"""URL patterns of the site."""

from django.contrib import admin
from django.urls import include, path

from webapp.pages import error_pages
from webapp.teams.first_login import welcome

urlpatterns = [
    path("welcome/<int:user_id>/<str:token>", welcome, name="welcome"),
    path("admin/", admin.site.urls),
    path("", include("webapp.operations.urls")),
    path("", include("webapp.pages.teams.urls")),
    path("", include("webapp.notifications.urls")),
    path("api/", include("webapp.api.urls")),
    path("", include("webapp.pages.models.urls")),
    path("", include("webapp.pages.runs.urls")),
    path("", include("webapp.pages.play.urls")),
    path("", include("webapp.pages.personal.urls")),
    path("", include("webapp.pages.reports.urls")),
    path("", include("webapp.pages.studies.urls")),
    path("", include("webapp.pages.trajectories.urls")),
]

handler400 = error_pages.bad_request
handler403 = error_pages.permission_denied
handler404 = error_pages.page_not_found
