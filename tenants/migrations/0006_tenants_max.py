"""How many tenants a person may own."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0005_sign_ins")]

    operations = [migrations.AddField("Person", "tenants_max", models.PositiveIntegerField(null=True))]
