"""Credit notes that operators grant, numbers of the issuer, and billing profiles."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0020_anchors")]

    operations = [
        migrations.AlterField(
            "creditnote",
            "cut",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="credit_notes",
                to="billing.cut",
            ),
        ),
        migrations.AddField("creditnote", "reason", models.CharField(blank=True, max_length=200, default="")),
        migrations.AddField(
            "creditnote", "reference", models.CharField(blank=True, max_length=120, default="")
        ),
        migrations.AddField("creditnote", "asked", models.JSONField(blank=True, default=dict)),
        migrations.AddField("creditnote", "granted_micro", models.BigIntegerField(default=0)),
        migrations.AddConstraint(
            "creditnote",
            models.UniqueConstraint(
                condition=models.Q(("reference", ""), _negated=True),
                fields=("invoice", "reference"),
                name="billing_one_credit_note_a_reference",
            ),
        ),
        migrations.CreateModel(
            "IssuerSeries",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("series", models.CharField(max_length=30, unique=True)),
                ("last", models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.AddField(
            "invoice", "issuer_number", models.CharField(blank=True, default="", max_length=40)
        ),
        migrations.AddField(
            "creditnote", "issuer_number", models.CharField(blank=True, default="", max_length=40)
        ),
        migrations.AddConstraint(
            "invoice",
            models.UniqueConstraint(
                condition=models.Q(("issuer_number", ""), _negated=True),
                fields=("issuer_number",),
                name="billing_one_invoice_an_issuer_number",
            ),
        ),
        migrations.AddConstraint(
            "creditnote",
            models.UniqueConstraint(
                condition=models.Q(("issuer_number", ""), _negated=True),
                fields=("issuer_number",),
                name="billing_one_credit_note_an_issuer_number",
            ),
        ),
        migrations.AddField(
            "taxaddress", "legal_name", models.CharField(blank=True, default="", max_length=200)
        ),
        migrations.AddField("taxaddress", "email", models.CharField(blank=True, default="", max_length=254)),
        migrations.AddField("taxaddress", "no_mail", models.BooleanField(default=False)),
    ]
