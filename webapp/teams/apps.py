from django.apps import AppConfig
from django.utils import timezone

from webapp.core.scheduler import every

FINISH_EVERY = 60.0


class TeamsConfig(AppConfig):
    name = "webapp.teams"

    def ready(self) -> None:
        from webapp.teams import removals, team_undo

        team_undo.register_undos()
        every(FINISH_EVERY, "removals that became final", lambda: removals.do_finish_removals(timezone.now()))
