"""URLs of the command palette, the inbox and follows."""

from django.urls import path

from webapp.pages.personal import follow_views, inbox_views, palette_views, undo_views

urlpatterns = [
    path("palette.json", palette_views.palette, name="palette"),
    path("runs/<slug:slug>/follow", follow_views.run_follow, name="run-follow"),
    path("undo/<slug:slug>", undo_views.undo, name="undo"),
    path("inbox", inbox_views.inbox_page, name="inbox"),
    path("inbox/read", inbox_views.inbox_read, name="inbox-read"),
    path("inbox/settings", inbox_views.inbox_settings, name="inbox-settings"),
    path("inbox/<slug:slug>", inbox_views.inbox_open, name="inbox-open"),
    path("mentions/<slug:slug>", inbox_views.inbox_open, name="mention"),  # in e-mails
]
