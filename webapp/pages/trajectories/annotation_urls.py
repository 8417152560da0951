"""Addresses of annotations and mentions."""

from django.urls import path

from webapp.pages.trajectories import annotation_views

urlpatterns = [
    path("t/<slug:slug>/annotations", annotation_views.show, name="annotations"),
    path("t/<slug:slug>/star", annotation_views.star, name="star"),
    path("t/<slug:slug>/tag", annotation_views.tag, name="tag"),
    path("t/<slug:slug>/untag", annotation_views.untag, name="untag"),
    path("t/<slug:slug>/comment", annotation_views.comment, name="comment"),
    path("comments/<slug:slug>/edit", annotation_views.comment_edit, name="comment-edit"),
    path("comments/<slug:slug>/delete", annotation_views.comment_delete, name="comment-delete"),
    path("mentions", annotation_views.mentions, name="mentions"),
    path("mentions/read", annotation_views.mentions_read, name="mentions-read"),
    path("mentions/mail", annotation_views.mentions_mail, name="mentions-mail"),
    path("mentions/<slug:slug>", annotation_views.mention, name="mention"),
]
