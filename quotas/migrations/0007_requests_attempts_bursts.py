"""Limits of a tenant's own on its requests and new connections, and how its rates are kept."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0006_calls_connections_groups"),
    ]

    operations = [
        migrations.AddField(
            model_name="quota", name="requests_per_s", field=models.PositiveIntegerField(null=True)
        ),
        migrations.AddField(
            model_name="quota", name="connection_attempts_per_s", field=models.PositiveIntegerField(null=True)
        ),
        migrations.AddField(
            model_name="quota", name="rate_burst_ms", field=models.PositiveIntegerField(null=True)
        ),
        migrations.AddField(
            model_name="quota", name="rate_floor_percent", field=models.PositiveIntegerField(null=True)
        ),
    ]
