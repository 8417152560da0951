from django.apps import AppConfig


class ReportsConfig(AppConfig):
    name = "webapp.reports"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        import webapp.reports.actions  # noqa: F401  # connects its receivers
