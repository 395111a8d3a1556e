"""Which windows of a data set were imported."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0011_infrastructure_costs")]

    operations = [
        migrations.AddField("datasetstate", "windows", models.JSONField(default=dict)),
    ]
