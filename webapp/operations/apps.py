from django.apps import AppConfig
from django.utils import timezone

from webapp.core.scheduler import every

RETENTION_EVERY = 3600.0


class OperationsConfig(AppConfig):
    name = "webapp.operations"

    def ready(self) -> None:
        from webapp.operations.retention import do_thin

        every(RETENTION_EVERY, "retention", lambda: do_thin(timezone.now()))
