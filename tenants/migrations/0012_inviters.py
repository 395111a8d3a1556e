"""Invitations keep who made them: they may make them still when the invitation is taken."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0011_organisations"),
    ]

    operations = [
        migrations.AddField(
            model_name=model,
            name="inviter",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        )
        for model in ("invitation", "organisationinvitation")
    ]
