from django.apps import AppConfig


class SavedViewsConfig(AppConfig):
    name = "webapp.saved_views"
    default_auto_field = "django.db.models.BigAutoField"
