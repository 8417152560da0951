from django.apps import AppConfig

from webapp.core.scheduler import every

MAIL_EVERY = 5.0


class AnnotationsConfig(AppConfig):
    name = "webapp.annotations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.annotations import mention_mail

        every(MAIL_EVERY, "mention mails", mention_mail.send_due)
