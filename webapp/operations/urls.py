"""URLs of health checks, metrics, and the site's security pages."""

from django.urls import URLPattern, URLResolver, path

from webapp.core.middleware.csp import REPORTS
from webapp.operations import csp_reports, health, prometheus, security_txt, site_status

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.alive, name="alive"),
    path("readyz", health.ready, name="ready"),
    path(security_txt.PATH.lstrip("/"), security_txt.security_txt, name="security-txt"),
    path(REPORTS.lstrip("/"), csp_reports.csp_report, name="csp-report"),
    path("status-line", site_status.status_line, name="status-line"),
    path("metrics", prometheus.metrics, name="figures"),
]
