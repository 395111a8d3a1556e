"""A limit of the processor time that a tenant's calls of REST take."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0012_budgets_of_reads")]

    operations = [
        migrations.AddField(
            model_name="quota",
            name="rest_processor_ms_per_s",
            field=models.PositiveIntegerField(null=True),
        ),
    ]
