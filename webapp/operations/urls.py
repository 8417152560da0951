"""URLs of health checks and metrics."""

from django.urls import URLPattern, URLResolver, path

from webapp.operations import health, prometheus

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.alive, name="alive"),
    path("readyz", health.ready, name="ready"),
    path("metrics", prometheus.metrics, name="figures"),
]
