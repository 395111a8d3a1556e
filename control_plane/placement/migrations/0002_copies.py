"""A move may add a replica or take one away."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("placement", "0001_initial"),)

    operations = (
        migrations.AlterField(model_name="move", name="source", field=models.PositiveIntegerField(null=True)),
        migrations.AlterField(
            model_name="move", name="destination", field=models.PositiveIntegerField(null=True)
        ),
    )
