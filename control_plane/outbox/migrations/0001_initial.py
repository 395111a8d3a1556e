"""The first form of the tables of this app."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=32)),
                ("object_id", models.CharField(max_length=64)),
                ("tenant", models.CharField(max_length=40)),
                ("generation", models.PositiveBigIntegerField()),
                ("created_at", models.DateTimeField()),
                ("delivered_at", models.DateTimeField(null=True)),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("next_attempt_at", models.DateTimeField()),
                ("lease_holder", models.CharField(blank=True, max_length=40)),
                ("lease_until", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("delivered_at__isnull", True)),
                        fields=["next_attempt_at"],
                        name="outbox_due",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("kind", "object_id", "generation"), name="outbox_one_row_a_generation"
                    )
                ],
            },
        ),
    ]
