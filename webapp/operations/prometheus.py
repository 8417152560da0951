"""Prometheus metrics: requests and sockets of this process; runs, queues and workers from the database.

Runs, queues and workers are queried at each scrape, so that every process reports the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Min
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import REGISTRY, CollectorRegistry, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from webapp.core.database import database_now
from webapp.runs.models import Run, Worker
from webapp.runs.queue import fair_share, order
from webapp.runs.queue.dead_workers import live_workers
from webapp.teams.models import Team

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

REQUESTS = Histogram(
    "echoscope_http_request_seconds",
    "Server time of requests, by view, method and status.",
    ("view", "method", "status"),
    buckets=BUCKETS,
)
SOCKETS = Gauge("echoscope_websockets", "Open websockets of this process.")


class QueueCollector(Collector):
    """Runs by state, queues, workers and ingest progress, from the database."""

    def collect(self) -> Iterator[Metric]:
        now = database_now()
        states = dict(Run.objects.order_by().values_list("state").annotate(Count("pk")))
        runs = GaugeMetricFamily("echoscope_runs", "Runs by state.", labels=["state"])
        for state in Run.State.values:
            runs.add_metric([state], states.get(state, 0))
        yield runs
        length = GaugeMetricFamily("echoscope_queue_length", "Runs waiting for a worker.", labels=["queue"])
        age = GaugeMetricFamily("echoscope_queue_oldest_seconds", "Longest wait of a queued run.", labels=["queue"])
        waiting = Run.objects.filter(state=Run.State.QUEUED).order_by()
        for queue, count, oldest in waiting.values_list("queue").annotate(Count("pk"), Min("created_at")):
            length.add_metric([queue], count)
            age.add_metric([queue], (now - oldest).total_seconds())
        yield length
        yield age
        workers = GaugeMetricFamily(
            "echoscope_workers", "Workers by whether they sent a recent heartbeat.", labels=["is"]
        )
        alive = live_workers(now).count()
        workers.add_metric(["alive"], alive)
        workers.add_metric(["silent"], Worker.objects.count() - alive)
        yield workers
        yield from _devices(now)
        held = Run.objects.filter(state__in=Run.HELD).order_by()
        speed = GaugeMetricFamily(
            "echoscope_run_tokens_per_second", "Sampled tokens per second, by run.", labels=["run"]
        )
        iteration = GaugeMetricFamily("echoscope_run_iteration", "Finished iterations, by run.", labels=["run"])
        seq = GaugeMetricFamily("echoscope_run_events", "Events of the journal ingested.", labels=["run"])
        for slug, tokens, finished, events in held.values_list("slug", "tokens_per_second", "iteration", "seq"):
            if tokens is not None:
                speed.add_metric([slug], tokens)
            iteration.add_metric([slug], finished)
            seq.add_metric([slug], events)
        yield speed
        yield iteration
        yield seq
        broken = Run.objects.filter(state__in=Run.HELD).exclude(journal_error="").count()
        yield GaugeMetricFamily(
            "echoscope_journals_unreadable", "Running runs whose journal cannot be read further.", broken
        )


def _devices(now: datetime) -> Iterator[Metric]:
    """Yield places and GPUs of live workers by device class, and each team's recent device use."""
    places = GaugeMetricFamily("echoscope_places", "Occupied and free places of live workers.", labels=["class", "is"])
    gpus = GaugeMetricFamily("echoscope_gpus", "GPUs of live workers.", labels=["class", "is"])
    counted: Counter[tuple[str, str]] = Counter()
    reserved: Counter[tuple[str, str]] = Counter()
    for capacity in order.workers(now):
        name = capacity.worker.device_class or "none"
        taken = capacity.worker.slots - capacity.places
        counted.update({(name, "taken"): taken, (name, "free"): capacity.places})
        busy = sum(gpu.runs > 0 for gpu in capacity.room.gpus)
        reserved.update({(name, "reserved"): busy, (name, "free"): len(capacity.room.gpus) - busy})
    for labels, count in counted.items():
        places.add_metric(labels, count)
    for labels, count in reserved.items():
        gpus.add_metric(labels, count)
    yield places
    yield gpus
    use = GaugeMetricFamily(
        "echoscope_team_device_seconds",
        "Recent device use of a team, the basis of its fair share.",
        labels=["team"],
    )
    slugs = dict(Team.objects.values_list("pk", "slug"))
    for team, seconds in fair_share.used(now).teams.items():
        use.add_metric([slugs.get(team, "none")], seconds)
    yield use


STANDING = CollectorRegistry(auto_describe=False)
STANDING.register(QueueCollector())


def has_token(request: HttpRequest) -> bool:
    """Return True if the request has ECHOSCOPE_METRICS_TOKEN. No query."""
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    expected = settings.ECHOSCOPE_METRICS_TOKEN
    return bool(expected) and constant_time_compare(token, expected)


def allowed(request: HttpRequest) -> bool:
    """Return True if the request has ECHOSCOPE_METRICS_TOKEN or comes from a staff user."""
    if has_token(request):
        return True
    return request.user.is_active and request.user.is_staff


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Return all metrics, for staff and requests with the token; 404 for others."""
    if not allowed(request):
        raise Http404("Metrics require a staff account or ECHOSCOPE_METRICS_TOKEN.")
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(REGISTRY) + encode(STANDING), content_type=content_type)
