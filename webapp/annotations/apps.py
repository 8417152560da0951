from django.apps import AppConfig

from webapp.core.scheduler import every

MAIL_EVERY = 5.0


class AnnotationsConfig(AppConfig):
    name = "webapp.annotations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.annotations import actions, mention_mail
        from webapp.teams import removals
        from webapp.teams.models import Removal

        undo = removals.Undo(actions.restore_comment, actions.may_restore_comment, "Write it again.")
        removals.register(Removal.Kind.COMMENT, undo)
        every(MAIL_EVERY, "mention mails", mention_mail.send_due)
