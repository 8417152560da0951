from django.apps import AppConfig

from webapp.background import every

MAIL_EVERY = 5.0


class AnnotationsConfig(AppConfig):
    name = "webapp.annotations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.annotations import mails

        every(MAIL_EVERY, "mention mails", mails.send_due)
