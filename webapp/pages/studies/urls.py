"""URLs of studies."""

from django.urls import path, re_path

from webapp.pages.studies import study_launch_views, study_views

urlpatterns = [
    path("studies", study_views.studies, name="studies"),
    path("studies/new", study_launch_views.study_new, name="study-new"),
    path("studies/new/check", study_launch_views.study_check, name="study-check"),
    path("studies/<slug:slug>", study_views.study, name="study"),
    path("studies/<slug:slug>/visibility", study_views.study_visibility, name="study-visibility"),
    path("studies/<slug:slug>/export/<slug:kind>", study_views.study_export, name="study-export"),
    re_path(
        r"^studies/(?P<slug>[-\w]+)/(?P<action>pause|resume|cancel|undo-cancel)$",
        study_views.study_request,
        name="study-request",
    ),
]
