"""Keys keep the number by which usage records name them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0012_inviters")]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="principal_number",
            field=models.PositiveBigIntegerField(null=True),
        ),
    ]
