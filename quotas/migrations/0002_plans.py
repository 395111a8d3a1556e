"""Plans: published versions, the plan of a tenant, and further limits of its own."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="PlanVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=32)),
                ("version", models.PositiveIntegerField()),
                ("limits", models.JSONField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.AddConstraint(
            model_name="planversion",
            constraint=models.UniqueConstraint(fields=("name", "version"), name="one_plan_version"),
        ),
        migrations.AddField(
            model_name="quota", name="plan", field=models.CharField(blank=True, default="", max_length=32)
        ),
        migrations.AddField(
            model_name="quota", name="plan_version", field=models.PositiveIntegerField(default=0)
        ),
        migrations.AddField(
            model_name="quota", name="topics_max", field=models.PositiveIntegerField(null=True)
        ),
        migrations.AddField(
            model_name="quota", name="retention_ms_max", field=models.PositiveBigIntegerField(null=True)
        ),
        migrations.AddField(
            model_name="quota", name="message_bytes_max", field=models.PositiveIntegerField(null=True)
        ),
    ]
