"""Addresses of annotations and mentions."""

from django.urls import path

from webapp.annotations import views

urlpatterns = [
    path("t/<slug:slug>/annotations", views.show, name="annotations"),
    path("t/<slug:slug>/star", views.star, name="star"),
    path("t/<slug:slug>/tag", views.tag, name="tag"),
    path("t/<slug:slug>/untag", views.untag, name="untag"),
    path("t/<slug:slug>/comment", views.comment, name="comment"),
    path("comments/<slug:slug>/edit", views.comment_edit, name="comment-edit"),
    path("comments/<slug:slug>/delete", views.comment_delete, name="comment-delete"),
    path("mentions", views.mentions, name="mentions"),
    path("mentions/read", views.mentions_read, name="mentions-read"),
    path("mentions/mail", views.mentions_mail, name="mentions-mail"),
    path("mentions/<slug:slug>", views.mention, name="mention"),
]
