"""A producer's own totals: what brokers acknowledged, kept in a file that an invoice can be compared with."""

from penstock.receipts.reading import read_receipts
from penstock.receipts.values import AcknowledgedRange, Receipts, ReceiptsSource

__all__ = ["AcknowledgedRange", "Receipts", "ReceiptsSource", "read_receipts"]
