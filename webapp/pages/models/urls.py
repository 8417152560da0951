"""URLs of the models."""

from django.urls import path

from webapp.pages.models import model_views

urlpatterns = [
    path("models/status", model_views.model_status, name="model-status"),
    path("models/real", model_views.train_real_model, name="train-real-model"),
    path("models/<str:name>/download", model_views.model_download, name="model-download"),
    path("models/<str:name>/cancel", model_views.model_cancel, name="model-cancel"),
    path("models/<str:name>/delete", model_views.model_delete, name="model-delete"),
]
