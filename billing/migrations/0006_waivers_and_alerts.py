"""Partitions of deleted topics that are given up; when it was told last that a draft waits."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0005_billing_chain"),
        ("tenants", "0002_invitations"),
    ]

    operations = [
        migrations.AddField(
            model_name="invoice",
            name="alerted_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.CreateModel(
            name="PartitionWaiver",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic_id", models.CharField(max_length=32)),
                ("partition", models.PositiveIntegerField()),
                ("reason", models.TextField()),
                ("actor", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "from_cut",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="waivers",
                        to="billing.cut",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="waivers",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("from_cut", "topic_id", "partition"), name="billing_one_waiver_a_cut"
                    )
                ],
            },
        ),
    ]
