"""The first form of the tables of this app."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Topic",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("generation", models.PositiveBigIntegerField(default=1)),
                ("delivered_generation", models.PositiveBigIntegerField(default=0)),
                ("delivered_revision", models.PositiveBigIntegerField(default=0)),
                ("conditions", models.JSONField(blank=True, default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("name", models.CharField(max_length=249)),
                ("topic_id", models.CharField(max_length=32, unique=True)),
                ("partitions", models.PositiveIntegerField()),
                ("settings", models.JSONField()),
                ("on_brokers", models.BooleanField(default=False)),
                ("deleted_at", models.DateTimeField(null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="topics",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("deleted_at__isnull", True)),
                        fields=("tenant", "name"),
                        name="topics_one_topic_a_name",
                    )
                ],
            },
        ),
    ]
