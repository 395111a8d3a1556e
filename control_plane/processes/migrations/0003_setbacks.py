"""Objects of rounds that failed, each with the time of its next attempt."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("processes", "0002_what_the_schedule_did")]

    operations = [
        migrations.CreateModel(
            name="Setback",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=40)),
                ("object_id", models.CharField(max_length=64)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("retry_at", models.DateTimeField()),
                ("error", models.CharField(max_length=200)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "object_id"), name="processes_one_setback")
                ]
            },
        ),
    ]
