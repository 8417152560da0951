"""URLs of the pages of runs."""

from django.urls import path, re_path

from webapp.pages.runs import (
    compare_views,
    curve_views,
    evaluation_views,
    explorer_views,
    launch_views,
    list_views,
    run_action_views,
    run_views,
    worker_views,
)

urlpatterns = [
    path("", list_views.run_list, name="runs"),
    path("runs/new", launch_views.launch, name="launch"),
    path("runs/new/check", launch_views.launch_check, name="launch-check"),
    path("runs/new/yaml", launch_views.launch_yaml, name="launch-yaml"),
    path("runs/new/environment", launch_views.launch_environment, name="launch-environment"),
    path("runs/<slug:slug>/", run_views.run_live, name="run"),
    path("runs/<slug:slug>/snapshot.json", run_views.run_snapshot, name="run-snapshot"),
    path("runs/<slug:slug>/trajectories", explorer_views.explorer, name="run-trajectories"),
    path("runs/<slug:slug>/trajectories.json", explorer_views.explorer_counts, name="run-trajectories-counts"),
    path("runs/<slug:slug>/curves", curve_views.run_curves, name="run-curves"),
    path("runs/<slug:slug>/curves.json", curve_views.run_curves_data, name="run-curves-data"),
    path("runs/<slug:slug>/curves.csv", curve_views.run_curves_csv, name="run-curves-csv"),
    path("runs/<slug:slug>/evaluation", evaluation_views.run_evaluation, name="run-evaluation"),
    path("runs/<slug:slug>/configuration", run_views.run_configuration, name="run-configuration"),
    path("runs/<slug:slug>/log", run_views.run_log, name="run-log"),
    path("runs/<slug:slug>/t/<path:key>", run_views.run_trajectory, name="run-trajectory"),
    path("runs/<slug:slug>/visibility", run_action_views.run_visibility, name="run-visibility"),
    path("runs/<slug:slug>/checkpoints/<int:iteration>.tar", run_action_views.run_checkpoint, name="run-checkpoint"),
    path("runs/<slug:slug>/rebuild", run_action_views.run_rebuild, name="run-rebuild"),
    path("runs/<slug:slug>/priority", run_action_views.run_priority, name="run-priority"),
    re_path(
        r"^runs/(?P<slug>[-\w]+)/(?P<action>pause|resume|stop|cancel)$",
        run_action_views.run_request,
        name="run-request",
    ),
    path("compare", compare_views.compare, name="compare"),
    path("compare/curves.json", compare_views.compare_curves_data, name="compare-curves-data"),
    path("workers", worker_views.workers, name="workers"),
]
