"""Documents in a chain for each tenant; cuts with the totals and the hash that brokers keep."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0004_invoice_audit_head"),
        ("tenants", "0002_invitations"),
    ]

    operations = [
        migrations.CreateModel(
            name="BillingEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sequence", models.PositiveBigIntegerField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("prices", "Prices"),
                            ("invoice", "Invoice"),
                            ("credit_note", "Credit Note"),
                        ],
                        max_length=16,
                    ),
                ),
                ("object_id", models.CharField(max_length=40)),
                ("document", models.JSONField()),
                ("document_sha256", models.CharField(max_length=64)),
                ("at", models.DateTimeField()),
                ("previous_hash", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="billing_entries",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "sequence"), name="billing_one_entry_a_sequence"
                    ),
                    models.UniqueConstraint(
                        fields=("tenant", "kind", "object_id"), name="billing_one_document"
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="cut",
            name="chain_hash",
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name="cut",
            name="chain_sequence",
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="cut",
            name="sha256",
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name="cutreading",
            name="accepted_ms",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="cutreading",
            name="bytes",
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="cutreading",
            name="last",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="cutreading",
            name="messages",
            field=models.PositiveBigIntegerField(null=True),
        ),
    ]
