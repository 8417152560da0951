"""URLs of reports."""

from django.urls import path

from webapp.pages.reports import report_edit_views, report_export_views, report_history_views, report_views

urlpatterns = [
    path("reports", report_views.reports, name="reports"),
    path("reports/new", report_edit_views.report_new, name="report-new"),
    path("reports/preview", report_edit_views.report_preview, name="report-preview"),
    path("reports/insert", report_edit_views.report_insert, name="report-insert"),
    path("reports/<slug:slug>", report_views.report, name="report"),
    path("reports/<slug:slug>/blocks", report_views.report_blocks, name="report-blocks"),
    path("reports/<slug:slug>/picture.png", report_views.report_picture, name="report-picture"),
    path("reports/<slug:slug>/edit", report_edit_views.report_edit, name="report-edit"),
    path("reports/<slug:slug>/visibility", report_edit_views.report_visibility, name="report-visibility"),
    path("reports/<slug:slug>/archive", report_edit_views.report_archive, name="report-archive"),
    path("reports/<slug:slug>/delete", report_edit_views.report_delete, name="report-delete"),
    path("reports/<slug:slug>/history", report_history_views.report_history, name="report-history"),
    path("reports/<slug:slug>/history/<int:number>", report_history_views.report_revision, name="report-revision"),
    path(
        "reports/<slug:slug>/history/<int:number>/restore", report_history_views.report_restore, name="report-restore"
    ),
    path("reports/<slug:slug>/export/<slug:kind>", report_export_views.report_export, name="report-export"),
]
