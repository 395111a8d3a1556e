"""Answers that were given to requests with an idempotency key."""

from django.db import models


class IdempotentRequest(models.Model):
    """The first request of a caller with this key, and its answer once it is known."""

    caller = models.CharField(max_length=64)
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)
    """SHA-256 of method, path and body: the same key with another request is a mistake."""
    started_at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True)
    answer = models.JSONField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["caller", "key"], name="api_one_request_a_key"),)
        indexes = (models.Index(fields=["started_at"], name="api_request_age"),)
