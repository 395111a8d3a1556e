"""A tenant's access list as the metadata store holds it: one value, so that brokers go from one whole list to the next.

/access_lists/<tenant>    AccessListRecord; absent: the tenant has set nothing. Written from feature level
                          ACCESS_LISTS on: a broker below it would not obey.
"""

import json
from dataclasses import dataclass
from typing import Any, Self

from penstock.rules.access import AccessList
from penstock.rules.access_document import access_list_digest, access_list_json, access_list_of


def access_list_key(tenant: str) -> str:
    return f"/access_lists/{tenant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessListRecord:
    """Who may do what in one tenant. It is read when it is asked for: most brokers have no caller."""

    text: str
    """As penstock/rules/access_document.py writes it; only what it could read is ever stored."""
    generation: int = 0
    """Version of the desired state that this reflects (0 = never received one); a lower one is ignored."""

    @classmethod
    def of(cls, rules: AccessList, generation: int) -> Self:
        """Raises `LimitExceeded` when it is too long."""
        return cls(text=access_list_json(rules), generation=generation)

    @property
    def rules(self) -> AccessList:
        """Read again each time: some ms at the limit."""
        return access_list_of(self.text)

    @property
    def digest(self) -> str:
        """Of the written form, hex."""
        return access_list_digest(self.text)

    def encode(self) -> bytes:
        values = {"generation": self.generation, "rules": self.text}
        return json.dumps(values, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        values: dict[str, Any] = json.loads(value)
        return cls(text=values["rules"], generation=values["generation"])
