from django.apps import AppConfig


class SavedViewsConfig(AppConfig):
    name = "webapp.saved_views"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.saved_views.actions import may_restore_view, restore_view
        from webapp.teams import removals
        from webapp.teams.models import Removal

        removals.register(Removal.Kind.VIEW, removals.Undo(restore_view, may_restore_view, "Save the view again."))
