"""What someone changed at Stripe: customers that were deleted there, receivables that wait for an operator, and
payments that were noted there without Stripe.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("payments", "0006_customer_keys"),)

    operations = (
        migrations.AddField("stripecustomer", "former_ids", models.JSONField(default=list)),
        migrations.AddField("receivable", "held", models.BooleanField(default=False)),
        migrations.AddField("receivable", "mail_due", models.BooleanField(default=False)),
        migrations.AddField("receivable", "asked_again", models.BooleanField(default=False)),
        migrations.AlterField(
            "payment",
            "source",
            models.CharField(
                choices=[("stripe", "Stripe"), ("bank", "Bank"), ("out_of_band", "Out Of Band")],
                max_length=16,
            ),
        ),
    )
