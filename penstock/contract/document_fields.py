"""What documents of billing are made of: values with their bounds, and the strict JSON that they are written in."""

import re
from typing import Annotated

import msgspec

from penstock.contract.ids import PARTITION_MAX

Whole = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
"""Offsets, generations and amounts: far enough below the 64 bits of the brokers' interface that one more fits."""
Quantity = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Ordinal = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Number = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
"""Of invoices and of credit notes: 1, 2, … within the tenant."""
Partition = Annotated[int, msgspec.Meta(ge=0, le=PARTITION_MAX)]
TIME_MAX_MS = 253_402_300_799_999
"""The calendar's last ms, at the end of the year 9999."""
Time = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX_MS)]
AcceptedTime = Annotated[int, msgspec.Meta(ge=-1, le=TIME_MAX_MS)]
"""-1: nothing was accepted yet."""
SHA256_HEX = re.compile(r"[0-9a-f]{64}")
# \Z, as $ would let a line end follow.
Sha256 = Annotated[str, msgspec.Meta(pattern=rf"^{SHA256_HEX.pattern}\Z")]
TopicIdHex = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Signed = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
BasisPoints = Annotated[int, msgspec.Meta(ge=0, le=10_000)]
"""Hundredths of a percent."""
Reason = Annotated[str, msgspec.Meta(max_length=200)]
AddressPart = Annotated[str, msgspec.Meta(max_length=200)]
Stated = Annotated[str, msgspec.Meta(max_length=255)]
Currency = Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}\Z")]
MonthAmount = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,10}\.[0-9]{6}\Z")]
UnitPrice = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,7}\.[0-9]{12}\Z")]
TERMS_MAX = 100
"""Discounts, and grants of credit, that a tenant has at a time."""
NO_HASH = "0" * 64
"""What the first entry of a chain follows."""


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A value of a document."""
