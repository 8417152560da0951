"""URLs of reports."""

from django.urls import path

from webapp.pages.reports import report_edit_views, report_views

urlpatterns = [
    path("reports", report_views.reports, name="reports"),
    path("reports/new", report_edit_views.report_form, name="report-new"),
    path("reports/preview", report_edit_views.report_preview, name="report-preview"),
    path("reports/<slug:slug>", report_views.report, name="report"),
    path("reports/<slug:slug>/edit", report_edit_views.report_form, name="report-edit"),
    path("reports/<slug:slug>/delete", report_edit_views.report_delete, name="report-delete"),
    path("reports/<slug:slug>/history", report_views.report_history, name="report-history"),
    path("reports/<slug:slug>/history/<int:number>", report_views.report_revision, name="report-revision"),
    path("reports/<slug:slug>/history/<int:number>/restore", report_edit_views.report_restore, name="report-restore"),
]
