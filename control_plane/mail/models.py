"""E-mails to send, and what became of them."""

from django.db import models

from control_plane.ids import LENGTH_MAX

KIND_LENGTH_MAX = 32


class Mail(models.Model):
    """One e-mail to one address. Its content is here only until it is sent: it may have a link that signs people in."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    kind = models.CharField(max_length=KIND_LENGTH_MAX)
    to = models.EmailField()
    subject = models.CharField(max_length=200)
    text = models.TextField()
    """Empty once it is sent or given up."""
    html = models.TextField()
    file = models.BinaryField(default=bytes)
    """What goes with it; empty: nothing does, or it is sent or given up."""
    file_name = models.CharField(max_length=100, default="")
    file_kind = models.CharField(max_length=100, default="")
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    """When to try next; None = it is sent or given up."""
    attempts = models.PositiveIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=400, default="")
    """Why the last attempt failed."""

    class Meta:
        indexes = (
            models.Index(fields=["due_at"], name="mail_due", condition=models.Q(due_at__isnull=False)),
            models.Index(fields=["to", "kind", "created_at"], name="mail_of_address"),
        )
