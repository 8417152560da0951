from django.apps import AppConfig

from webapp.core.scheduler import every

REBUILD_EVERY = 2.0
JUDGE_EVERY = 3.0
SHARES_EVERY = 3.0


class WorkerConfig(AppConfig):
    name = "webapp.worker"

    def ready(self) -> None:
        import webapp.worker.heartbeat  # noqa: F401  connects to Celery's signals
        from webapp.explorer.watched_shares import do_compute_shares, due
        from webapp.ingest.marks import do_judge_waiting, waiting
        from webapp.ingest.rebuild import do_requested_rebuilds, requested_rebuilds

        every(REBUILD_EVERY, "rebuilds", do_requested_rebuilds, lambda: [requested_rebuilds()])
        every(JUDGE_EVERY, "marks", do_judge_waiting, lambda: [waiting()])
        every(SHARES_EVERY, "watched views", do_compute_shares, lambda: [due()])
