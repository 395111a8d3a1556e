"""The controller's books of storage, over the metadata: whose partitions count."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.metadata.model import TopicRecord
from data_plane.node.storage_limits.storage_office import StorageOffice
from data_plane.storage_limits.reports import NearLimit, Report
from penstock.contract.ids import SYSTEM_TENANT, BrokerId, TenantId, TopicId, TopicPartition
from tests.unit.log.miniature import SMALL

ACME, OTHER = TenantId("tn_acme"), TenantId("tn_other")


def topic(number: int, tenant: TenantId, name: str, partitions: int) -> TopicRecord:
    return TopicRecord(
        topic_id=TopicId(bytes([number]) * 16), tenant=tenant, name=name, partitions=partitions, settings=SMALL
    )  # fmt: skip


@pytest.mark.pure  # the image is a stand-in
def test_each_partition_of_a_tenants_own_topics_counts_and_no_other() -> None:
    mine, not_mine = topic(1, ACME, "orders", 2), topic(2, OTHER, "orders", 1)
    internal = topic(3, SYSTEM_TENANT, "__usage", 1)
    topics = {one.topic_id: one for one in (mine, not_mine, internal)}
    view: Any = SimpleNamespace(image=SimpleNamespace(topics=topics))
    clock: Any = None
    office = StorageOffice(view, clock, learn_ms=0, seated=lambda: True, confident=lambda: True)
    assert mine.metered and not internal.metered
    assert list(office._counted({ACME})) == [TopicPartition(mine.topic_id, number) for number in (0, 1)]
    assert list(office._counted({SYSTEM_TENANT})) == []
    assert office._tenant_of(not_mine.topic_id) == OTHER
    assert office._tenant_of(replace(mine, topic_id=TopicId(bytes(16))).topic_id) is None


@pytest.mark.pure  # the image is a stand-in
def test_who_is_near_its_limit_is_named_by_a_confirmed_controller_alone() -> None:
    brokers = {BrokerId(2): None}
    image = SimpleNamespace(controller_epoch=3, brokers=brokers, epoch_of={BrokerId(2): 7}.get, topics={})
    view: Any = SimpleNamespace(image=image)
    clock: Any = SimpleNamespace(monotonic_ms=lambda: 0.0)
    seated, confident = [True], [True]
    office = StorageOffice(view, clock, learn_ms=0, seated=lambda: seated[0], confident=lambda: confident[0])
    report = Report(broker=BrokerId(2), registration=7, epoch=3, sequence=1, kept=[], whole=True, full=[])
    assert office.named is None and office.near == 0, "nobody has reported yet"
    assert asyncio.run(office.asked(report)) == []
    assert office.named == NearLimit([], whole=True)
    confident[0] = False
    assert office.named is None and asyncio.run(office.asked(report)) is None
    confident[0] = True
    assert office.named is not None, "its books are the same"
    seated[0] = False
    assert office.named is None and asyncio.run(office.asked(report)) is None
