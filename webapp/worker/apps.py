from django.apps import AppConfig


class WorkerConfig(AppConfig):
    name = "webapp.worker"

    def ready(self) -> None:
        import webapp.worker.heartbeat  # noqa: F401  connects to Celery's signals
