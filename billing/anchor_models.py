"""What is published of all billing chains, a document a day, and the key that signs it: shape and constraints only."""

from django.db import models

from billing.models import SHA256_DIGITS, Immutable


class AnchorKey(Immutable):
    """The service's key for anchors. There is one: the oldest."""

    secret = models.TextField()
    """32 bytes of Ed25519 as hex digits, sealed."""
    public = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)


class DayAnchor(Immutable):
    """A day's published document."""

    day = models.DateField(unique=True)
    content = models.TextField()
    """`penstock.contract.anchor_documents.SignedAnchors`, as it is sent."""
    document_sha256 = models.CharField(max_length=SHA256_DIGITS)
    published_at = models.DateTimeField()
