from django.apps import AppConfig

from webapp.core.scheduler import every

PURGE_EVERY = 3600.0


class ReportsConfig(AppConfig):
    name = "webapp.reports"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.reports import actions

        every(PURGE_EVERY, "deleted reports", actions.do_purge)
