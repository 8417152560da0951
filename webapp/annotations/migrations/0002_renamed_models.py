import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("annotations", "0001_squashed"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.RenameModel("Wish", "MailPreference"),
        migrations.RenameModel("Change", "AnnotationVersion"),
        migrations.AlterField(
            model_name="annotationversion",
            name="trajectory",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="annotation_version",
                to="trajectories.trajectory",
            ),
        ),
        migrations.AlterField(
            model_name="mailpreference",
            name="user",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE, related_name="mail_preference", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AlterField(
            model_name="mention",
            name="mail_at",
            field=models.DateTimeField(
                blank=True, help_text="Next attempt of the e-mail; empty = none is due.", null=True
            ),
        ),
    ]
