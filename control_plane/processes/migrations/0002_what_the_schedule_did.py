"""When each task of the schedule went well last."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("processes", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="ScheduledTask",
            fields=[
                ("name", models.CharField(max_length=60, primary_key=True, serialize=False)),
                ("since", models.DateTimeField()),
                ("well_at", models.DateTimeField(null=True)),
                ("due_s", models.FloatField()),
                ("error", models.CharField(max_length=200)),
            ],
        ),
    ]
