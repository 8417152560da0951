"""URLs of alert rules."""

from django.urls import path

from webapp.notifications import views

urlpatterns = [
    path("alerts", views.alerts, name="alerts"),
    path("alerts/new", views.alert_new, name="alert-new"),
    path("alerts/addresses/<slug:token>", views.alert_address, name="alert-address"),
    path("alerts/<slug:slug>", views.alert, name="alert"),
    path("alerts/<slug:slug>/edit", views.alert_edit, name="alert-edit"),
    path("alerts/<slug:slug>/test", views.alert_test, name="alert-test"),
    path("alerts/<slug:slug>/switch", views.alert_switch, name="alert-switch"),
    path("alerts/<slug:slug>/secret", views.alert_secret, name="alert-secret"),
    path("alerts/<slug:slug>/secret/former", views.alert_former_secrets, name="alert-former-secrets"),
    path("alerts/<slug:slug>/delete", views.alert_delete, name="alert-delete"),
    path("alerts/<slug:slug>/deliveries/<slug:delivery_slug>", views.delivery, name="delivery"),
    path("alerts/<slug:slug>/deliveries/<slug:delivery_slug>/again", views.delivery_again, name="delivery-again"),
]
