"""Addresses of trajectories and of what was shared."""

from django.urls import path

from webapp.trajectories import (
    embeds_views,
    exports_views,
    neighbours_views,
    pictures_views,
    shares_views,
    tokens_views,
    views,
)

urlpatterns = [
    path("t/<slug:slug>", views.trajectory, name="trajectory"),
    path("t/<slug:slug>.json", views.trajectory_data, name="trajectory-data"),
    path("t/<slug:slug>/tokens.json", tokens_views.trajectory_tokens, name="trajectory-tokens"),
    path("t/<slug:slug>/prompt", neighbours_views.prompt, name="prompt"),
    path("t/<slug:slug>/diff/<slug:other>", neighbours_views.thoughts, name="thoughts"),
    path("t/<slug:slug>/picture.png", pictures_views.trajectory_picture, name="trajectory-picture"),
    path("t/<slug:slug>/export/<slug:kind>", exports_views.trajectory_export, name="trajectory-export"),
    path("t/<slug:slug>/share", shares_views.share, name="share"),
    path("t/<slug:slug>/shares/<slug:token>/revoke", shares_views.revoke, name="revoke"),
    path("s/<slug:token>", shares_views.shared, name="shared"),
    path("s/<slug:token>/tokens.json", tokens_views.shared_tokens, name="shared-tokens"),
    path("s/<slug:token>/picture.png", pictures_views.shared_picture, name="shared-picture"),
    path("s/<slug:token>/export/<slug:kind>", exports_views.shared_export, name="shared-export"),
    path("runs/<slug:slug>/export/<str:kind>", exports_views.run_export, name="run-export"),
    path("embed/<slug:token>", embeds_views.embed, name="embed"),
    path("oembed", embeds_views.oembed, name="oembed"),
]
