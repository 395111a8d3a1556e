"""Names of topics are labels: a right invoice is proven whatever its topics are called by now, and their ids count."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.ids import TopicId
from penstock.verification.findings import Kind, Report, Verdict
from tests.unit.verification.honest import PERIOD_MS, RETURNS, Service
from tests.unit.verification.stored_log import BEGIN_MS, StoredLog

NAMES = ("orders", "orders.old", "orders-new", "ORDERS", "a")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("make", "write", "bin", "restore", "rename", "purge", "cut")),
        st.integers(0, 3),
        st.sampled_from(NAMES),
    ),
    max_size=14,
)


class Topics:
    """A service whose topics are made, binned, restored, renamed and purged. No two that live have one name."""

    def __init__(self) -> None:
        self.service = Service()
        self._names: dict[TopicId, list[str]] = {}
        self._made = self._written = 0

    def do(self, what: str, which: int, name: str) -> None:
        """One step, where it is possible."""
        service = self.service
        is_free = all(log.name != name for log in service.logs)
        log = service.logs[which % len(service.logs)] if service.logs else None
        binned = service.binned[which % len(service.binned)] if service.binned else None
        match what:
            case "make" if is_free:
                self._made += 1
                made = StoredLog(0, TopicId(self._made.to_bytes(16)), name)
                self._names[made.where.topic_id] = [name]
                service.logs.append(made)
            case "write" if log is not None:
                self._written += 1
                log.write(2, service.period_begins_ms + self._written)
            case "bin" if log is not None:
                service.logs.remove(log)
                service.binned.append(log)
            case "restore" if binned is not None and is_free:
                service.binned.remove(binned)
                service.logs.append(binned)
                self._call(binned, name)
            case "rename" if log is not None and is_free:
                self._call(log, name)
            case "purge" if binned is not None:
                service.binned.remove(binned)
                service.gone.append(binned)
            case "cut":
                self.cut(which)

    def _call(self, log: StoredLog, name: str) -> None:
        log.name = name
        self._names[log.where.topic_id].append(name)

    def cut(self, which: int) -> None:
        """The invoice says any name that a topic had up to then: readings of different times have different ones."""
        logs = [*self.service.logs, *self.service.binned, *self.service.gone]
        today = [(log, log.name) for log in logs]
        for log in logs:
            names = self._names[log.where.topic_id]
            log.name = names[which % len(names)]
        self.service.cut()
        for log, name in today:
            log.name = name


def reports(service: Service) -> list[Report]:
    return [service.verify(invoice) for invoice in service.documents]


@given(STEPS)
def test_a_right_invoice_is_proven_whatever_became_of_its_topics_and_their_names(
    steps: list[tuple[str, int, str]],
) -> None:
    topics = Topics()
    for step in steps:
        topics.do(*step)
    topics.cut(len(steps))
    for report in reports(topics.service):
        assert report.problems == (), steps


def restored() -> Service:
    """`orders` is billed, binned, made again and billed, and the first one comes back under another name."""
    orders = StoredLog(0)
    orders.write(3, BEGIN_MS + 1)
    service = Service(orders)
    service.cut()
    again = StoredLog(0, RETURNS, "orders")
    again.write(2, BEGIN_MS + PERIOD_MS + 1)
    service.logs.append(again)
    service.cut()
    orders.name = "orders.old"
    return service


def test_the_least_case_is_a_topic_that_has_another_name_than_on_its_invoice() -> None:
    for report in reports(restored()):
        assert report.verdict is Verdict.PROVEN
        (finding,) = [
            one for one in report.partitions if one.topic_id == "".join(f"{i:02x}" for i in range(16))
        ]
        assert (finding.topic, finding.called_now) == ("orders", "orders.old")


def test_messages_of_another_topic_with_the_name_of_the_invoice_prove_nothing() -> None:
    """The id counts: what the invoice says of one topic is not shown by another that is called as it was."""
    service = restored()
    document = service.documents["inv_1"]
    document["partitions"][0]["topic_id"] = document["cut"]["readings"][0]["topic_id"] = RETURNS.hex()
    service.rechain()
    service.show_again()
    assert Kind.CUT_DIFFERS in {problem.kind for problem in service.verify("inv_1").problems}
