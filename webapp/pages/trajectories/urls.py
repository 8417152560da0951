"""URLs of trajectories, shared links, embeds and annotations."""

from django.urls import path

from webapp.pages.trajectories import (
    annotation_views,
    embed_views,
    export_views,
    film_views,
    first_success_views,
    image_views,
    player_views,
    related_views,
    share_views,
    token_views,
)

urlpatterns = [
    path("t/<slug:slug>", player_views.trajectory, name="trajectory"),
    path("t/<slug:slug>.json", player_views.trajectory_data, name="trajectory-data"),
    path("t/<slug:slug>/tokens.json", token_views.trajectory_tokens, name="trajectory-tokens"),
    path("t/<slug:slug>/prompt", related_views.prompt, name="prompt"),
    path("t/<slug:slug>/input/<int:turn>", player_views.policy_input_page, name="policy-input"),
    path("t/<slug:slug>/film/preview.png", film_views.film_preview, name="film-preview"),
    path("t/<slug:slug>/film.<slug:kind>", film_views.film, name="film"),
    path("t/<slug:slug>/embed", embed_views.trajectory_embed, name="trajectory-embed"),
    path("t/<slug:slug>/diff/<slug:other>", related_views.thoughts, name="thoughts"),
    path("t/<slug:slug>/picture.png", image_views.trajectory_picture, name="trajectory-picture"),
    path("t/<slug:slug>/images/<slug:sha256>", image_views.trajectory_image, name="trajectory-image"),
    path("t/<slug:slug>/export/<slug:kind>", export_views.trajectory_export, name="trajectory-export"),
    path("t/<slug:slug>/share", share_views.share, name="share"),
    path("t/<slug:slug>/shares/<slug:token>/revoke", share_views.revoke, name="revoke"),
    path("s/<slug:token>", share_views.shared, name="shared"),
    path("s/<slug:token>/tokens.json", token_views.shared_tokens, name="shared-tokens"),
    path("s/<slug:token>/picture.png", image_views.shared_picture, name="shared-picture"),
    path("s/<slug:token>/images/<slug:sha256>", image_views.shared_image, name="shared-image"),
    path("s/<slug:token>/export/<slug:kind>", export_views.shared_export, name="shared-export"),
    path("runs/<slug:slug>/first-successes", first_success_views.run_first_successes, name="run-first-successes"),
    path("runs/<slug:slug>/export/<str:kind>", export_views.run_export, name="run-export"),
    path("embed/<slug:token>", embed_views.embed, name="embed"),
    path("oembed", embed_views.oembed, name="oembed"),
    path("t/<slug:slug>/annotations", annotation_views.show, name="annotations"),
    path("t/<slug:slug>/star", annotation_views.star, name="star"),
    path("t/<slug:slug>/tag", annotation_views.tag, name="tag"),
    path("t/<slug:slug>/untag", annotation_views.untag, name="untag"),
    path("t/<slug:slug>/comment", annotation_views.comment, name="comment"),
    path("comments/<slug:slug>/edit", annotation_views.comment_edit, name="comment-edit"),
    path("comments/<slug:slug>/delete", annotation_views.comment_delete, name="comment-delete"),
]
