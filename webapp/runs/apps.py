from django.apps import AppConfig
from django.utils import timezone

from webapp.core.scheduler import every

REAP_EVERY = 10.0
PRUNE_EVERY = 3600.0


class RunsConfig(AppConfig):
    name = "webapp.runs"

    def ready(self) -> None:
        from webapp.runs import actions

        every(REAP_EVERY, "reaper", lambda: actions.do_reap(timezone.now()))
        every(PRUNE_EVERY, "pruning", lambda: actions.do_prune(timezone.now()))
