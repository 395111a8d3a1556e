"""The hashes of billing's documents and of their chain: tenants and brokers keep them, so they never change."""

from typing import Any

import msgspec
import pytest

from penstock.contract.document_fields import NO_HASH, Strict
from penstock.contract.documents import ChainEntry, chain_hash, document_sha256, plain, read_document
from penstock.contract.errors import InvalidRequest

from .documents import CREDIT_NOTE, ENTRY, INVOICE, PRICES
from .documents_2 import CREDIT_NOTE_2, INVOICE_2, PRICES_2

pytestmark = pytest.mark.both_cores

PREVIOUS = "12" * 32
FROZEN_CHAIN = "68ad9023a11c0d35350c51109ac78364b93ca63cfe6817160d53b07375a61aee"


@pytest.mark.parametrize(
    ("document", "frozen"),
    [
        (INVOICE, "b56d098fc2eeb3569b251dd421604523154c3b3f56a2754a56c6990ad70dabaf"),
        (CREDIT_NOTE, "a8875fde5407869ccbfa9102d5bd2520c6cb0e48cbd5e17a6abfc37ce84b6365"),
        (PRICES, "4dcb9e9d12e08acc56df7009a14c161a8c90f8c82f0158d728d141b3b1aa9dd3"),
        (INVOICE_2, "fd0ac291b52ae5040bdf5417f81fc7526a188b0aa56a098d227918eac9149707"),
        (CREDIT_NOTE_2, "02053d32815fb512cc7b7f05c35dc3c9c0f8169b2851d3b18ec3abac2a43b64d"),
        (PRICES_2, "de80c2023d9205e64e5c423c672912fb76ea3c671d036af4d691d26daae84545"),
    ],
    ids=["invoice", "credit note", "prices", "invoice 2", "credit note 2", "prices 2"],
)
def test_documents_hash_as_frozen_also_after_being_stored(document: Strict, frozen: str) -> None:
    assert document_sha256(document) == frozen
    assert document_sha256(read_document(plain(document), type(document), "frozen")) == frozen


@pytest.mark.parametrize(
    "document", [INVOICE_2, CREDIT_NOTE_2, PRICES_2], ids=["invoice", "credit note", "prices"]
)
def test_a_document_has_all_fields_of_its_format_and_none_of_the_other(document: Strict) -> None:
    whole = plain(document)
    with pytest.raises(InvalidRequest, match="format 1 has no field"):
        read_document(whole | {"format": 1}, type(document), "mixed")
    for name in {"charges", "balances", "terms"} & whole.keys():
        with pytest.raises(InvalidRequest, match=f"format 2 has the field {name}"):
            read_document({k: v for k, v in whole.items() if k != name}, type(document), "mixed")


def test_entries_of_the_chain_hash_as_frozen() -> None:
    assert chain_hash("tn_1", PREVIOUS, ENTRY) == FROZEN_CHAIN
    assert (
        chain_hash("tn_1", NO_HASH, ENTRY)
        == "cd374e931882d47109f714673eeaf92ef7aca9e054635fd43819f5f0171d442d"
    )


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("sequence", 5),
        ("kind", "credit_note"),
        ("object_id", "inv_3"),
        ("document_sha256", "e0" * 32),
        ("at_ms", ENTRY.at_ms + 1),
    ],
)
def test_every_field_of_an_entry_changes_its_hash(field: str, other: Any) -> None:
    changed = msgspec.structs.replace(ENTRY, **{field: other})
    assert chain_hash("tn_1", PREVIOUS, changed) != FROZEN_CHAIN


def test_the_tenant_and_the_entry_before_change_the_hash_and_the_hash_itself_does_not() -> None:
    assert chain_hash("tn_2", PREVIOUS, ENTRY) != FROZEN_CHAIN
    assert chain_hash("tn_1", "13" * 32, ENTRY) != FROZEN_CHAIN
    assert chain_hash("tn_1", PREVIOUS, msgspec.structs.replace(ENTRY, hash="34" * 32)) == FROZEN_CHAIN


def test_no_field_of_an_entry_is_forgotten_above() -> None:
    tried = {"sequence", "kind", "object_id", "document_sha256", "at_ms"}
    assert {field.name for field in msgspec.structs.fields(ChainEntry)} == tried | {"hash"}
