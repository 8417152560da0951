from django.apps import AppConfig
from django.utils import timezone

from webapp.core.scheduler import every

PURGE_EVERY = 60.0


class TeamsConfig(AppConfig):
    name = "webapp.teams"

    def ready(self) -> None:
        from webapp.core.soft_delete import do_purge

        every(PURGE_EVERY, "deleted rows", lambda: do_purge(timezone.now()))
