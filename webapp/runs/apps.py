from django.apps import AppConfig
from django.db.models.functions import Now

from webapp.core.scheduler import every

REAP_EVERY = 10.0
PRUNE_EVERY = 3600.0


class RunsConfig(AppConfig):
    name = "webapp.runs"

    def ready(self) -> None:
        from webapp.core.database import database_now
        from webapp.runs import actions
        from webapp.runs.models import Run

        every(
            REAP_EVERY,
            "reaper",
            lambda: actions.do_reap(database_now()),
            lambda: [Run.objects.lost(Now()), Run.objects.filter(state=Run.State.QUEUED)],
        )
        every(PRUNE_EVERY, "pruning", lambda: actions.do_prune(database_now()))
