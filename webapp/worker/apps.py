from django.apps import AppConfig

from webapp.core.scheduler import every

REBUILD_EVERY = 2.0
JUDGE_EVERY = 3.0
EARLIER_RUNS_EVERY = 3600.0
SHARES_EVERY = 3.0


class WorkerConfig(AppConfig):
    name = "webapp.worker"

    def ready(self) -> None:
        import webapp.worker.heartbeat  # noqa: F401  connects to Celery's signals
        from webapp.explorer.watched_shares import do_compute_shares, due
        from webapp.ingest.echo_trap_detector import do_judge_earlier_runs
        from webapp.ingest.marks import do_judge_waiting, waiting
        from webapp.ingest.rebuild import do_requested_rebuilds, requested_rebuilds

        every(REBUILD_EVERY, "rebuilds", do_requested_rebuilds, lambda: [requested_rebuilds()])
        every(JUDGE_EVERY, "marks", do_judge_waiting, lambda: [waiting()])
        every(EARLIER_RUNS_EVERY, "echo trap of earlier runs", do_judge_earlier_runs)
        every(SHARES_EVERY, "watched views", do_compute_shares, lambda: [due()])
