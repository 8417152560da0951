from django.apps import AppConfig

from webapp.core.scheduler import every

ADVANCE_EVERY = 10.0


class StudiesConfig(AppConfig):
    name = "webapp.studies"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.studies import progress

        every(ADVANCE_EVERY, "studies", progress.do_advance, lambda: [progress.unfinished()])
