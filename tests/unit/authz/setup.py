"""An image with two tenants, their topics and keys, and an authenticator over it."""

from dataclasses import replace

from data_plane.authz.access import AccessRules, Authenticator, Principal
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import KeyRecord, TopicRecord
from data_plane.metadata.port import Event, WatchBatch
from penstock.contract.api_keys import ApiKey, make_api_key
from penstock.contract.ids import TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.credentials import make_credential

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
PEPPERS = {1: b"p" * 32, 2: b"q" * 32}
NOW_MS = 1_800_000_000_000
PEER = "10.0.0.1"


def key_number(number: int) -> ApiKey:
    return make_api_key("dev", bytes([number]) * 48)


class Tenants:
    """The image, changed as the watch would change it."""

    def __init__(self, rules: AccessRules | None = None) -> None:
        self.image = ClusterImage()
        self.authenticator = Authenticator(self.image, PEPPERS, rules)
        for number, tenant in ((1, ACME), (2, GLOBEX)):
            topic = TopicRecord(
                topic_id=TopicId(bytes([number]) * 16),
                tenant=tenant,
                name="orders",
                partitions=1,
                settings=TopicSettings(),
            )
            self.put(model.topic_key(topic.topic_id), topic.encode())
            self.put(model.name_key(tenant, "orders"), topic.topic_id.hex().encode())
            self.add_key(number, tenant)

    def put(self, key: str, value: bytes | None) -> None:
        revision = self.image.revision + 1
        self.image.apply(WatchBatch(revision, (Event(key, value, revision),)))

    def add_key(
        self, number: int, tenant: TenantId, *, expires_at_ms: int = 0, pepper_version: int = 1
    ) -> None:
        made = make_credential(
            key_number(number), pepper_version=pepper_version, pepper=PEPPERS[pepper_version], salts=bytes(32)
        )
        record = KeyRecord(
            key_id=made.key_id,
            tenant=tenant,
            name=f"key {number}",
            principal=number,
            pepper_version=pepper_version,
            secret_hmac=made.secret_hmac,
            scram=made.scram,
            expires_at_ms=expires_at_ms,
        )
        self.put(model.credential_key(made.key_id), record.encode())

    def change_key(self, number: int, **changes: object) -> None:
        record = self.image.keys[key_number(number).key_id]
        self.put(model.credential_key(record.key_id), replace(record, **changes).encode())  # type: ignore[arg-type]

    def enter(
        self, key: ApiKey | str, *, peer: str = PEER, monotonic_ms: float = 0, now_ms: int = NOW_MS
    ) -> Principal:
        text = key if isinstance(key, str) else f"Bearer {key.reveal()}"
        return self.authenticator.authenticate(text, peer=peer, now_ms=now_ms, monotonic_ms=monotonic_ms)
