from django.apps import AppConfig
from django.utils import timezone

from webapp.core.scheduler import every

PURGE_EVERY = 60.0
FORGET_EVERY = 3600.0


class TeamsConfig(AppConfig):
    name = "webapp.teams"

    def ready(self) -> None:
        from webapp.core.soft_delete import do_purge
        from webapp.teams import audit_signals  # noqa: F401 - connects its receivers
        from webapp.teams.audit import do_forget_entries
        from webapp.teams.user_sessions import do_forget_sessions

        every(PURGE_EVERY, "deleted rows", lambda: do_purge(timezone.now()))
        every(FORGET_EVERY, "ended sessions", lambda: do_forget_sessions(timezone.now()))
        every(FORGET_EVERY, "audit log", lambda: do_forget_entries(timezone.now()))
