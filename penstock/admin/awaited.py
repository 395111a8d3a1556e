"""`Client.admin` of the asyncio SDK: the blocking calls, each in a thread, so that the loop goes on."""

import asyncio
import functools
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from penstock.admin.blocking import DELIVERY_S, Admin, Patience
from penstock.admin.objects import BinnedTopic, Key, NewKey, NewTopic, Topic, TopicOutcome


class AwaitedAdmin:
    """The calls of `penstock.admin.blocking.Admin`, to be awaited. What is cancelled may still be applied."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def create_topic(
        self, name: str, partitions: int, *, timeout: float | None = None, **settings: Any
    ) -> Topic:
        call = functools.partial(self._admin.create_topic, name, partitions, timeout=timeout, **settings)
        return await asyncio.to_thread(call)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout: float | None = None
    ) -> list[TopicOutcome]:
        return await asyncio.to_thread(self._admin.create_topics, topics, timeout=timeout)

    async def topics(self, *, timeout: float | None = None) -> list[Topic]:
        return await asyncio.to_thread(self._admin.topics, timeout=timeout)

    async def topic(self, name: str, *, timeout: float | None = None) -> Topic:
        return await asyncio.to_thread(self._admin.topic, name, timeout=timeout)

    async def update_topic(
        self,
        name: str,
        settings: Mapping[str, Any] | None = None,
        *,
        partitions: int | None = None,
        timeout: float | None = None,
    ) -> Topic:
        return await asyncio.to_thread(
            self._admin.update_topic, name, settings, partitions=partitions, timeout=timeout
        )

    async def delete_topic(
        self, name: str, *, purge: bool = False, timeout: float | None = None
    ) -> str | None:
        return await asyncio.to_thread(self._admin.delete_topic, name, purge=purge, timeout=timeout)

    async def binned_topics(self, *, timeout: float | None = None) -> list[BinnedTopic]:
        return await asyncio.to_thread(self._admin.binned_topics, timeout=timeout)

    async def restore_topic(self, id: str, name: str | None = None, *, timeout: float | None = None) -> Topic:
        return await asyncio.to_thread(self._admin.restore_topic, id, name, timeout=timeout)

    async def purge_topic(self, id: str, *, timeout: float | None = None) -> None:
        await asyncio.to_thread(self._admin.purge_topic, id, timeout=timeout)

    async def wait_for_topic(self, topic: Topic, *, timeout: float = DELIVERY_S) -> Topic:
        now, wait = topic, Patience(timeout)
        while now.delivered_generation < topic.generation:
            await asyncio.sleep(wait.pause_s(f"topic {topic.name}", now.conditions))
            now = await self.topic(topic.name, timeout=wait.left_s)
        return now

    async def create_key(
        self,
        name: str,
        *,
        expires_at: datetime | None = None,
        topic_prefix: str | None = None,
        operations: Sequence[str] = (),
        scopes: Sequence[Mapping[str, Any]] = (),
        service_account: str | None = None,
        timeout: float | None = None,
    ) -> NewKey:
        return await asyncio.to_thread(
            self._admin.create_key,
            name,
            expires_at=expires_at,
            topic_prefix=topic_prefix,
            operations=operations,
            scopes=scopes,
            service_account=service_account,
            timeout=timeout,
        )

    async def create_verifying_key(
        self,
        name: str,
        *,
        expires_at: datetime | None = None,
        topic_prefix: str | None = None,
        timeout: float | None = None,
    ) -> NewKey:
        return await asyncio.to_thread(
            self._admin.create_verifying_key,
            name,
            expires_at=expires_at,
            topic_prefix=topic_prefix,
            timeout=timeout,
        )

    async def rotate_key(self, key_id: str, *, overlap_s: int = 3600, timeout: float | None = None) -> NewKey:
        return await asyncio.to_thread(self._admin.rotate_key, key_id, overlap_s=overlap_s, timeout=timeout)

    async def keys(self, *, verifying: bool = False, timeout: float | None = None) -> list[Key]:
        return await asyncio.to_thread(self._admin.keys, verifying=verifying, timeout=timeout)

    async def key(self, key_id: str, *, timeout: float | None = None) -> Key:
        return await asyncio.to_thread(self._admin.key, key_id, timeout=timeout)

    async def wait_for_key(self, key: Key | NewKey, *, timeout: float = DELIVERY_S) -> None:
        delivered, wait = key.delivered, Patience(timeout)
        while not delivered:
            await asyncio.sleep(wait.pause_s(f"key {key.id}"))
            delivered = (await self.key(key.id, timeout=wait.left_s)).delivered

    async def revoke_key(self, key_id: str, *, timeout: float | None = None) -> None:
        await asyncio.to_thread(self._admin.revoke_key, key_id, timeout=timeout)

    async def tenants(self, *, timeout: float | None = None) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._admin.tenants, timeout=timeout)

    async def quotas(self, *, timeout: float | None = None) -> dict[str, Any]:
        return await asyncio.to_thread(self._admin.quotas, timeout=timeout)

    async def plans(self, *, timeout: float | None = None) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._admin.plans, timeout=timeout)

    async def plan_preview(
        self, plan: str = "", *, version: int = 0, timeout: float | None = None
    ) -> dict[str, Any]:
        return await asyncio.to_thread(self._admin.plan_preview, plan, version=version, timeout=timeout)

    async def usage(
        self,
        *,
        by: Sequence[str] = (),
        since: date | None = None,
        until: date | None = None,
        timeout: float | None = None,
    ) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._admin.usage, by=by, since=since, until=until, timeout=timeout)

    async def invoices(self, *, timeout: float | None = None) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._admin.invoices, timeout=timeout)

    async def invoice(self, invoice_id: str, *, timeout: float | None = None) -> dict[str, Any]:
        return await asyncio.to_thread(self._admin.invoice, invoice_id, timeout=timeout)

    def close(self) -> None:
        """Close its connections; a later call opens new ones."""
        self._admin.close()
