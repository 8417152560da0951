from django.apps import AppConfig


class AnnotationsConfig(AppConfig):
    name = "webapp.annotations"
    default_auto_field = "django.db.models.BigAutoField"
