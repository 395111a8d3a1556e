"""Invoices remember the audit log as it was when they were issued."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0003_credit_notes"),
    ]

    operations = [
        migrations.AddField(
            model_name="invoice",
            name="audit_hash",
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name="invoice",
            name="audit_sequence",
            field=models.PositiveBigIntegerField(null=True),
        ),
    ]
