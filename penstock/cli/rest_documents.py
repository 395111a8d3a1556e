"""The documents of invoices as the service gives them to this key."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.rest.client import RestClient, segment

_EVIDENCE_S = 120.0
"""The evidence of a large invoice is megabytes."""


class RestDocuments:
    """It is `penstock.verification.proving.Documents`."""

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest

    def invoice(self, invoice_id: str) -> Any:
        return self._rest.get(f"/v1/invoices/{segment(invoice_id)}", timeout_s=_EVIDENCE_S)

    def evidence(self, invoice_id: str) -> Any:
        return self._rest.get(f"/v1/invoices/{segment(invoice_id)}/evidence", timeout_s=_EVIDENCE_S)

    def chain(self) -> Sequence[Mapping[str, Any]]:
        return list(self._rest.items("/v1/billing/chain", timeout_s=_EVIDENCE_S))
