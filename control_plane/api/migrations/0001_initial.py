"""The first form of the tables of this app."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="IdempotentRequest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("caller", models.CharField(max_length=64)),
                ("key", models.CharField(max_length=255)),
                ("digest", models.CharField(max_length=64)),
                ("started_at", models.DateTimeField()),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("answer", models.JSONField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["started_at"], name="api_request_age")],
                "constraints": [
                    models.UniqueConstraint(fields=("caller", "key"), name="api_one_request_a_key")
                ],
            },
        ),
    ]
