from django.apps import AppConfig

from webapp.core.scheduler import every


class ReportsConfig(AppConfig):
    name = "webapp.reports"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.reports import actions

        every(3600.0, "deleted reports", actions.do_purge)
