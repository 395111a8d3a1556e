"""Closing of tenants, and protection against it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0008_factors_and_links"),
    ]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="closed_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="tenant",
            name="protected",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="tenant",
            name="purge_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="tenant",
            name="purged_at",
            field=models.DateTimeField(null=True),
        ),
    ]
