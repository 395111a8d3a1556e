"""Plans, cells, the balancer, and what brokers reported of their load."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("placement", "0002_copies"),
    ]

    operations = [
        migrations.CreateModel(
            name="Balancer",
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
                (
                    "mode",
                    models.CharField(
                        choices=[("off", "Off"), ("advise", "Advise"), ("on", "On")],
                        default="advise",
                        max_length=6,
                    ),
                ),
                ("bytes_per_s", models.PositiveBigIntegerField(default=67108864)),
                ("moves_at_once", models.PositiveIntegerField(default=10)),
                ("free_at", models.DateTimeField(null=True)),
                ("uneven_since", models.DateTimeField(null=True)),
                ("looked_at", models.DateTimeField(null=True)),
                ("skew", models.JSONField(default=dict)),
                ("waits", models.CharField(blank=True, default="", max_length=200)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Cell",
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
                ("name", models.CharField(max_length=64, unique=True)),
                ("brokers", models.JSONField(default=list)),
                ("hosts", models.JSONField(default=list)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="LoadReport",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("broker", models.PositiveIntegerField(unique=True)),
                ("seen_at", models.DateTimeField()),
                ("sums", models.JSONField()),
                ("partitions", models.JSONField()),
            ],
        ),
        migrations.CreateModel(
            name="PlacementPlan",
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
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("drain", "Drain"),
                            ("rebalance", "Rebalance"),
                            ("move_tenant", "Move Tenant"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("draft", "Draft"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="draft",
                        max_length=9,
                    ),
                ),
                ("broker", models.PositiveIntegerField(null=True)),
                ("tenant", models.CharField(blank=True, default="", max_length=64)),
                ("cell", models.CharField(blank=True, default="", max_length=64)),
                ("cell_before", models.CharField(blank=True, default="", max_length=64)),
                ("moves", models.JSONField(default=list)),
                ("copied_bytes", models.PositiveBigIntegerField(default=0)),
                ("skew_before", models.JSONField(default=dict)),
                ("skew_after", models.JSONField(default=dict)),
                ("automatic", models.BooleanField(default=False)),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.AddField(
            model_name="move",
            name="copied_bytes",
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="move",
            name="plan",
            field=models.CharField(blank=True, db_index=True, default="", max_length=40),
        ),
        migrations.CreateModel(
            name="CellTenant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("tenant", models.CharField(max_length=64, unique=True)),
                (
                    "cell",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tenants",
                        to="placement.cell",
                    ),
                ),
            ],
        ),
    ]
