"""Credit notes: what issued invoices are lowered by when a declared loss takes back what they counted."""

import django.db.models.deletion
from django.db import migrations, models

import billing.models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0002_coverage_issue"),
        ("tenants", "0002_invitations"),
    ]

    operations = [
        migrations.CreateModel(
            name="CreditNote",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "public_id",
                    models.CharField(default=billing.models.new_credit_note_id, max_length=40, unique=True),
                ),
                ("number", models.PositiveIntegerField()),
                ("total_micro", models.BigIntegerField()),
                ("issued_at", models.DateTimeField()),
                (
                    "cut",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="credit_notes",
                        to="billing.cut",
                    ),
                ),
                (
                    "invoice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="credit_notes",
                        to="billing.invoice",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="credit_notes",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CreditedRange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic_id", models.CharField(max_length=32)),
                ("partition", models.PositiveIntegerField()),
                ("log_generation", models.PositiveBigIntegerField()),
                ("topic", models.CharField(max_length=255)),
                ("meter", models.CharField(max_length=64)),
                ("quantity", models.PositiveBigIntegerField()),
                ("first_offset", models.PositiveBigIntegerField()),
                ("end_offset", models.PositiveBigIntegerField()),
                (
                    "credit_note",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="ranges",
                        to="billing.creditnote",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CreditNoteLine",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("line_id", models.CharField(max_length=40, unique=True)),
                ("position", models.PositiveIntegerField()),
                ("meter", models.CharField(max_length=64)),
                ("unit", models.CharField(max_length=20)),
                ("unit_size", models.PositiveBigIntegerField()),
                ("quantity", models.PositiveBigIntegerField()),
                ("amount_micro", models.BigIntegerField()),
                ("price_book_sha256", models.CharField(max_length=64)),
                (
                    "credit_note",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="lines",
                        to="billing.creditnote",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="creditnote",
            constraint=models.UniqueConstraint(
                fields=("tenant", "number"), name="billing_one_credit_note_a_number"
            ),
        ),
        migrations.AddConstraint(
            model_name="creditnote",
            constraint=models.UniqueConstraint(
                fields=("invoice", "cut"), name="billing_one_credit_note_a_loss"
            ),
        ),
        migrations.AddConstraint(
            model_name="creditnote",
            constraint=models.CheckConstraint(
                condition=models.Q(("total_micro__gte", 0)), name="billing_credits_lower"
            ),
        ),
        migrations.AddConstraint(
            model_name="creditedrange",
            constraint=models.UniqueConstraint(
                fields=("credit_note", "topic_id", "partition", "meter"),
                name="billing_one_credited_range_a_meter",
            ),
        ),
        migrations.AddConstraint(
            model_name="creditnoteline",
            constraint=models.UniqueConstraint(
                fields=("credit_note", "meter"), name="billing_one_credit_a_meter"
            ),
        ),
    ]
