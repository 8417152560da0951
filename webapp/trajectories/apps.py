from django.apps import AppConfig


class TrajectoriesConfig(AppConfig):
    name = "webapp.trajectories"

    def ready(self) -> None:
        import webapp.trajectories.actions  # noqa: F401  # connects its receivers
