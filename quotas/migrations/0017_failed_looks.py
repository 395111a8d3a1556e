"""Ceilings of cost know since when looks at them fail."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0016_ceilings")]

    operations = [migrations.AddField("budget", "look_failed_at", models.DateTimeField(null=True))]
