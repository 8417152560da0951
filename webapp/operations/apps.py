from django.apps import AppConfig
from django.utils import timezone

from webapp.core.scheduler import every

RETENTION_EVERY = 3600.0
BACKUP_EVERY = 600.0


class OperationsConfig(AppConfig):
    name = "webapp.operations"

    def ready(self) -> None:
        from webapp.operations import backup_schedule
        from webapp.operations.retention import do_thin

        every(RETENTION_EVERY, "retention", lambda: do_thin(timezone.now()))
        every(BACKUP_EVERY, "nightly backup", lambda: backup_schedule.run_if_due(timezone.now()))
