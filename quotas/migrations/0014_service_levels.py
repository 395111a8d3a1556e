"""Plans have a service level, and changes of a tenant's plan have their time."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0013_rest_processor_time"), ("tenants", "0001_initial")]

    operations = [
        migrations.AddField("planversion", "service_level", models.JSONField(null=True)),
        migrations.CreateModel(
            name="PlanChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("plan", models.CharField(blank=True, default="", max_length=32)),
                ("plan_version", models.PositiveIntegerField(default=0)),
                ("changed_at", models.DateTimeField(auto_now_add=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="plan_changes",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant", "changed_at"], name="quotas_plan_changes_by_time")
                ],
            },
        ),
    ]
