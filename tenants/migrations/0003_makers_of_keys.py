"""Keys know who made them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0002_invitations"),
    ]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="maker",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="keys_made",
                to="tenants.person",
            ),
        ),
    ]
