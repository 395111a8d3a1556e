"""The mark on receivables that someone has changed at Stripe has a name that says so. Its column stays as it is: code
from before this change may run beside it.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("payments", "0008_credit_notes_by_mail"),)

    operations = (
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("receivable", "held", "changed_there"),
                migrations.AlterField(
                    "receivable", "changed_there", models.BooleanField(default=False, db_column="held")
                ),
            ]
        ),
    )
