from django.apps import AppConfig


class BranchingConfig(AppConfig):
    name = "webapp.branching"
    default_auto_field = "django.db.models.BigAutoField"
