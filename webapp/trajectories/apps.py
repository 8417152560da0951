from django.apps import AppConfig


class TrajectoriesConfig(AppConfig):
    name = "webapp.trajectories"

    def ready(self) -> None:
        from webapp.teams import removals
        from webapp.teams.models import Removal
        from webapp.trajectories.actions import may_restore_shares, restore_shares

        undo = removals.Undo(restore_shares, may_restore_shares, "Create a new link.")
        removals.register(Removal.Kind.SHARE, undo)
