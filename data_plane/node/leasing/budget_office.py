"""The controller's side of budgets: its books, written into the metadata store before any answer goes out."""

import asyncio
from collections.abc import Callable, Mapping

from data_plane.leases.budget_books import BudgetBooks
from data_plane.leases.budget_terms import BudgetAnswer, BudgetRequest
from data_plane.metadata.broker_records import CONTROLLER_KEY
from data_plane.metadata.budget_use import BudgetKey, BudgetUse, BudgetUseRecord, budget_use_key
from data_plane.metadata.port import Change, Compare, MetaStore, OutcomeUnknown, Put, StoreUnavailable
from data_plane.node.leasing.budget_messages import BUDGET_REQUESTS
from data_plane.node.membership.controller_books import ControllerBooks
from data_plane.node.membership.controller_questions import answer_questions
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, Clock, Connection
from penstock.contract.ids import TenantId

_TERMS = 1 << 20
"""Books that one controller may have had to begin, in the number of a term."""


class BudgetOffice:
    """Grants parts of budgets from the controller's books, once they are written."""

    def __init__(
        self,
        view: MetadataView,
        store: MetaStore,
        clock: Clock,
        call_ms: int,
        *,
        seated: Callable[[], bool],
        confident: Callable[[], bool],
    ) -> None:
        self._view = view
        self._store = store
        self._clock = clock
        self._call_ms = call_ms
        self._books = ControllerBooks(view, seated=seated, confident=confident, begin=self._begin)
        self._books_begun = 0
        self._written: dict[TenantId, tuple[int, BudgetUseRecord]] = {}
        """The revision and value that these books wrote last, by tenant."""
        self._one_by_one = asyncio.Lock()

    async def asked(self, request: BudgetRequest) -> BudgetAnswer | None:
        """Grant something, and answer once it is written; None: this broker grants nothing now."""
        async with self._one_by_one:
            return await self._asked(request)

    async def serve(self, caller: Caller, connection: Connection) -> None:
        """One broker's stream, as `answer_questions`."""
        await answer_questions(BUDGET_REQUESTS, self.asked, caller, connection)

    async def _asked(self, request: BudgetRequest) -> BudgetAnswer | None:
        books = self._books.open()
        if books is None or request.epoch != self._view.image.controller_epoch:
            return None
        decided = books.asked(
            request, self._books.registered(), self._clock.monotonic_ms(), self._clock.now_ms()
        )
        if decided is None:
            return None
        answer, changes = decided
        if changes and not await self._write(books, changes):
            # What became of it is not known: the next books begin with what the store says.
            self._books.drop()
            return None
        return answer

    def _begin(self, epoch: int) -> BudgetBooks:
        self._books_begun += 1
        self._written.clear()
        return BudgetBooks(
            epoch * _TERMS + self._books_begun % _TERMS, budget=self._view.image.budget, stored=self._stored
        )

    def _record(self, tenant: TenantId) -> tuple[int, BudgetUseRecord]:
        """With its revision: what these books wrote, which the image may not have yet."""
        image = self._view.image
        in_image = (
            image.budget_use_revisions.get(tenant, 0),
            image.budget_use.get(tenant, BudgetUseRecord()),
        )
        written = self._written.get(tenant)
        if written is not None and not in_image[0] and image.revision >= written[0]:
            # It was removed since, with the tenant's last budget.
            del self._written[tenant]
            written = None
        return written if written is not None and written[0] > in_image[0] else in_image

    def _stored(self, key: BudgetKey) -> BudgetUse | None:
        return self._record(key.tenant)[1].uses.get(key.budget_id)

    async def _write(self, books: BudgetBooks, changed: Mapping[BudgetKey, BudgetUse]) -> bool:
        """One transaction. False: it was not made, or that is not known."""
        image = self._view.image
        compares = [Compare(CONTROLLER_KEY, self._books.epoch)]
        changes: list[Change] = []
        records: dict[TenantId, BudgetUseRecord] = {}
        for tenant in dict.fromkeys(key.tenant for key in changed):
            revision, before = self._record(tenant)
            uses: dict[str, BudgetUse] = {}
            for budget in image.budgets_of(tenant):
                use = books.use(BudgetKey(tenant, budget.budget_id)) or before.uses.get(budget.budget_id)
                if use is not None:
                    uses[budget.budget_id] = use
            records[tenant] = BudgetUseRecord(uses=uses)
            compares.append(Compare(budget_use_key(tenant), revision))
            changes.append(Put(budget_use_key(tenant), records[tenant].encode()))
        try:
            async with asyncio.timeout(self._call_ms / 1000):
                result = await self._store.txn(compares, changes)
        except (TimeoutError, OutcomeUnknown, StoreUnavailable):
            await self._view.caught_up(self._call_ms)
            return False
        if not result.succeeded:
            await self._view.reached(result.revision, self._call_ms)
            return False
        for tenant, record in records.items():
            self._written[tenant] = (result.revision, record)
        return True
