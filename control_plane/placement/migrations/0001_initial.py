"""The first form of the tables of this app."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="BrokerOrder",
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
                ("broker", models.PositiveIntegerField(unique=True)),
                (
                    "use",
                    models.CharField(
                        choices=[("serve", "Serve"), ("drain", "Drain")], default="serve", max_length=8
                    ),
                ),
                ("replicas_at_start", models.PositiveIntegerField(default=0)),
                ("drained_at", models.DateTimeField(null=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Move",
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
                ("cause", models.CharField(max_length=16)),
                ("topic_id", models.CharField(max_length=32)),
                ("tenant", models.CharField(max_length=64)),
                ("topic", models.CharField(max_length=255)),
                ("partition", models.PositiveIntegerField()),
                ("source", models.PositiveIntegerField()),
                ("destination", models.PositiveIntegerField()),
                ("target", models.JSONField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("moving", "Moving"),
                            ("cancelled", "Cancelled"),
                            ("done", "Done"),
                        ],
                        default="waiting",
                        max_length=9,
                    ),
                ),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["state"], name="placement_by_state")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["waiting", "moving"])),
                        fields=("topic_id", "partition"),
                        name="placement_one_open_move_a_partition",
                    )
                ],
            },
        ),
    ]
