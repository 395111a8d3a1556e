"""Budgets may be ceilings of cost, and know what is expected."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0015_use_before_budgets")]

    operations = [
        migrations.AddField("budget", "growth_stopped_at", models.DateTimeField(null=True)),
        migrations.AddField("budget", "kept_bytes_max", models.PositiveBigIntegerField(null=True)),
        migrations.AddField("budget", "forecast_micro", models.PositiveBigIntegerField(null=True)),
        migrations.AddField("budget", "forecast_at", models.DateTimeField(null=True)),
    ]
