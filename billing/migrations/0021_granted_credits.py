"""Credit notes that operators grant."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0020_anchors")]

    operations = [
        migrations.AlterField(
            "creditnote",
            "cut",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="credit_notes",
                to="billing.cut",
            ),
        ),
        migrations.AddField("creditnote", "reason", models.CharField(blank=True, max_length=200, default="")),
        migrations.AddField(
            "creditnote", "reference", models.CharField(blank=True, max_length=120, default="")
        ),
        migrations.AddField("creditnote", "asked", models.JSONField(blank=True, default=dict)),
        migrations.AddField("creditnote", "granted_micro", models.BigIntegerField(default=0)),
        migrations.AddConstraint(
            "creditnote",
            models.UniqueConstraint(
                condition=models.Q(("reference", ""), _negated=True),
                fields=("invoice", "reference"),
                name="billing_one_credit_note_a_reference",
            ),
        ),
    ]
