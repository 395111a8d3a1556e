"""Limits of a tenant's own on its REST calls, connections and consumer groups."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0005_consume_rate"),
    ]

    operations = [
        migrations.AddField(
            model_name="quota", name="rest_calls_per_s", field=models.PositiveIntegerField(null=True)
        ),
        migrations.AddField(
            model_name="quota", name="connections_max", field=models.PositiveIntegerField(null=True)
        ),
        migrations.AddField(
            model_name="quota", name="groups_max", field=models.PositiveIntegerField(null=True)
        ),
    ]
