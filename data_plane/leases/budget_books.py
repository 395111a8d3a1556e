"""The controller's books of budgets: parts of what is left, granted to the brokers that use it.

What it promises: what all brokers were ever granted in a period, and what they said they used without a grant, is
never above what stands in the record; and nothing is granted beyond the amount. So all that brokers use in a period
is at most the amount, and what each may use before it has heard an answer (`data_plane.leases.budget_holder`).

    asked --changes to be written--> WRITTEN --the answer may be sent
                                     not written--> these books are to be dropped, with all that they answered

The record is written before the answer goes out: a successor begins with what it says, and learns nothing from
brokers. What a broker that is gone had of it counts as used. Parts are smaller towards the end, so that what idle
brokers have is little then.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from data_plane.leases.budget_terms import BudgetAnswer, BudgetRequest, Granted, Want, hold_max
from data_plane.metadata.budget_use import BudgetKey, BudgetUse
from penstock.contract.ids import BrokerId
from penstock.rules.budgets import Budget, period_at

SMALLEST = 20_000
"""The smallest part is one in so many of the amount: at the end not each message waits for an answer."""
ACTIVE_MS = 5_000
"""A broker that asked within this time has a part of what is left kept for it."""
REST = 100
"""Where less than one part in so many is left, a batch that it is too little for has spent the budget."""
_SWEEP_MS = 60_000
"""Between looks for books whose budget is gone."""


@dataclass(slots=True)
class _Account:
    """Of one broker and budget, in one period."""

    registration: int
    total: int = 0
    """Granted in this term."""
    received: int = 0
    returned: int = 0
    owed: int = 0
    holds: int = 0
    wanted_ms: float = float("-inf")
    heard: bool = False
    """The broker has said totals of these books."""

    @property
    def unused(self) -> int:
        """What it holds, and what is on its way to it."""
        return self.holds + self.total - self.received


@dataclass(slots=True)
class _Book:
    """Of one budget."""

    use: BudgetUse
    accounts: dict[BrokerId, _Account] = field(default_factory=dict)


class BudgetBooks:
    """Of one term. It answers alone: it sends nothing by itself and keeps no timer."""

    def __init__(
        self,
        term: int,
        *,
        budget: Callable[[BudgetKey], Budget | None],
        stored: Callable[[BudgetKey], BudgetUse | None],
    ) -> None:
        """`budget`: as it is wanted now, None = there is none. `stored`: what the record says of it."""
        self.term = term
        self._budget = budget
        self._stored = stored
        self._books: dict[BudgetKey, _Book] = {}
        self._swept_ms = float("-inf")

    def asked(
        self, request: BudgetRequest, registered: Mapping[BrokerId, int], now_ms: float, wall_ms: int
    ) -> tuple[BudgetAnswer, dict[BudgetKey, BudgetUse]] | None:
        """The answer, and what has to be written before it is sent. None: the broker is not registered so.
        `registered`: the epoch of each registered broker."""
        if registered.get(request.holder) != request.registration:
            return None
        self._sweep(now_ms)
        granted: dict[BudgetKey, Granted] = {}
        changes: dict[BudgetKey, BudgetUse] = {}
        for key, want in request.wants.items():
            budget = self._budget(key)
            if budget is None:
                self._books.pop(key, None)
                granted[key] = Granted(began_ms=0, ends_ms=0, total=0)
                continue
            book = self._book(key, budget, wall_ms)
            before = self._stored(key)
            account = self._account(book, request)
            self._take(book, account, want)
            self._grant(book, account, want, budget, len(registered), now_ms)
            for broker in [
                one for one in book.accounts if registered.get(one) != book.accounts[one].registration
            ]:
                del book.accounts[broker]
            book.use = replace(book.use, unused=sum(one.unused for one in book.accounts.values()))
            if book.use != before:
                changes[key] = book.use
            granted[key] = Granted(
                began_ms=book.use.began_ms,
                ends_ms=book.use.ends_ms,
                total=account.total,
                left=max(0, budget.amount - book.use.granted),
            )
        return BudgetAnswer(term=self.term, granted=granted), changes

    def _sweep(self, now_ms: float) -> None:
        if now_ms - self._swept_ms < _SWEEP_MS:
            return
        self._swept_ms = now_ms
        for key in [one for one in self._books if self._budget(one) is None]:
            del self._books[key]

    def use(self, key: BudgetKey) -> BudgetUse | None:
        """As these books have it; None: it was not asked for."""
        book = self._books.get(key)
        return None if book is None else book.use

    def _book(self, key: BudgetKey, budget: Budget, wall_ms: int) -> _Book:
        """Of the period that it is now by the wall clock; one that goes back opens no period again."""
        book = self._books.get(key)
        if book is None:
            stored = self._stored(key)
            book = self._books[key] = _Book(stored or BudgetUse(began_ms=0, ends_ms=0))
        began_ms, ends_ms = period_at(budget.period, wall_ms)
        if began_ms > book.use.began_ms:
            used = budget.used_before_in(began_ms)
            book = self._books[key] = _Book(BudgetUse(began_ms=began_ms, ends_ms=ends_ms, granted=used))
        return book

    def _account(self, book: _Book, request: BudgetRequest) -> _Account:
        account = book.accounts.get(request.holder)
        if account is None or account.registration != request.registration:
            account = book.accounts[request.holder] = _Account(request.registration)
        return account

    def _take(self, book: _Book, account: _Account, want: Want) -> None:
        """What the broker used without a grant, and gave back. Totals of other books, or of another period, say
        nothing here: what was given back to them counts as used."""
        if want.term != self.term or want.began_ms != book.use.began_ms:
            if account.heard:
                # The broker forgot the budget meanwhile. It begins with nothing: what it knew it has used or given
                # back, and what it had not heard of counts as used.
                account.total = account.received = account.returned = account.owed = 0
                account.heard = False
            account.holds = want.holds if want.began_ms == book.use.began_ms else 0
            return
        account.heard = True
        owed, returned = max(0, want.owed - account.owed), max(0, want.returned - account.returned)
        account.owed, account.returned = account.owed + owed, account.returned + returned
        account.received = max(account.received, want.received)
        account.holds = want.holds
        granted = book.use.granted + owed - returned
        book.use = replace(book.use, granted=max(0, granted))

    def _grant(
        self, book: _Book, account: _Account, want: Want, budget: Budget, brokers: int, now_ms: float
    ) -> None:
        missing = min(want.wants, max(want.needs, hold_max(budget.amount, brokers))) - account.unused
        left = budget.amount - book.use.granted
        # What others hold and have not used is not gone: they use it, or give it back within seconds.
        others = sum(one.unused for one in book.accounts.values() if one is not account)
        if (left + others) * REST > budget.amount:
            book.use = replace(book.use, short_of=0)
        elif budget.refuses and account.unused + max(0, left) < want.needs:
            book.use = replace(book.use, short_of=budget.amount)
        if not budget.refuses or missing <= 0 or left <= 0:
            return
        account.wanted_ms = now_ms
        active = sum(now_ms - one.wanted_ms <= ACTIVE_MS for one in book.accounts.values())
        if account.unused + left < want.needs:
            return  # a part would be of no use
        smallest = max(1, want.needs - account.unused, budget.amount // SMALLEST)
        part = min(missing, left, max(smallest, left // (2 * active)))
        account.total += part
        book.use = replace(book.use, granted=book.use.granted + part)
