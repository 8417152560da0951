"""When images of observations that nothing refers to were last deleted."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api", "0003_sent_images"),
    ]

    operations = [
        migrations.AddField(
            model_name="sentjournal",
            name="swept_trajectories",
            field=models.PositiveIntegerField(
                null=True, help_text="Trajectories of the run when images without references were last deleted."
            ),
        ),
    ]
