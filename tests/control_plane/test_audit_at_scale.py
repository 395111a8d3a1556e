"""A search of a long audit log reads the entries of its page alone. FULL=1 asks a million entries."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from control_plane.access_reports import content
from control_plane.audit import queries
from control_plane.audit.queries import Search
from tests.conftest import FULL

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

ENTRIES = 1_000_000 if FULL else 60_000
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
TENANT = "tn_long"
PAGE = 51
# Every second one entry, of 199 actors, on 4,999 objects with a name each; one in 101 was refused. A tenth is another
# tenant's, of the same actors and names.
FILL = f"""
INSERT INTO audit_auditentry
    (tenant, sequence, at, actor_kind, actor_id, action, object_id, before, after, request_id, source,
     previous_hash, hash, outcome, times, object_kind, object_name)
SELECT CASE WHEN n % 10 = 0 THEN 'tn_other' ELSE '{TENANT}' END, n,
    timestamptz '2026-01-01 00:00:00+00' + n * interval '1 second',
    'person', 'usr_' || n % 199, 'kind' || n % 7 || '.create', 'obj_' || n % 4999, '{{}}', '{{}}', '', '',
    repeat('0', 64), repeat('0', 64), CASE WHEN n % 101 = 0 THEN 'refused' ELSE 'done' END, 1,
    'kind' || n % 7, 'name-' || n % 4999
FROM generate_series(1, {ENTRIES}) AS n
"""
MIDDLE = BEGINNING + timedelta(seconds=ENTRIES // 2)
SEARCHES: dict[str, Search] = {
    "all": Search(),
    "actor": Search(actor="usr_7"),
    "object": Search(object_id="obj_77"),
    "kind": Search(kind="kind3"),
    "name": Search(name="name-77"),
    "name and kind": Search(name="name-77", kind="kind3"),
    "action": Search(action="kind3.create"),
    "refused": Search(outcome="refused"),
    "time": Search(since=MIDDLE, until=MIDDLE + timedelta(hours=1)),
    "kind in a time": Search(kind="kind3", since=MIDDLE, until=MIDDLE + timedelta(hours=1)),
    "actor, refused": Search(actor="usr_7", outcome="refused"),
    "actor in a time, done": Search(actor="usr_7", outcome="done", until=MIDDLE),
    "nothing": Search(actor="usr_none"),
}


def _scanned(plan: dict[str, Any]) -> Iterator[float]:
    """How many rows each scan of a plan looked at."""
    if "Relation Name" in plan or plan["Node Type"].startswith("Bitmap Index"):
        left_out = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        yield (plan["Actual Rows"] + left_out) * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from _scanned(part)


def _rows_read(sql: str) -> float:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
        (told,) = cursor.fetchone()
    (plan,) = json.loads(told) if isinstance(told, str) else told
    return sum(_scanned(plan["Plan"]))


def test_a_page_of_a_search_reads_a_bounded_number_of_entries() -> None:
    with connection.cursor() as cursor:
        cursor.execute(FILL)
        cursor.execute("ANALYZE audit_auditentry")
    slow: dict[str, float] = {}
    wide: dict[str, float] = {}
    for name, search in SEARCHES.items():
        for newest_first in (False, True):
            first = queries.page(TENANT, search, after=None, most=PAGE, newest_first=newest_first)
            places = [None] if len(first) < PAGE else [None, (first[-1].at, first[-1].sequence)]
            for after in places:
                began = time.perf_counter()
                with CaptureQueriesContext(connection) as caught:
                    found = queries.page(TENANT, search, after=after, most=PAGE, newest_first=newest_first)
                slow[name] = max(slow.get(name, 0.0), 1_000 * (time.perf_counter() - began))
                assert (len(found) > 0) == (name != "nothing"), name
                read = sum(_rows_read(query["sql"]) for query in caught.captured_queries)
                wide[name] = max(wide.get(name, 0.0), read)
    print({name: (f"{slow[name]:.1f} ms", f"{wide[name]:.0f} rows") for name in SEARCHES})
    # An object has 1 in 5,000 of all entries, an actor 1 in 200: what no index gives alone is looked for among these.
    bounds = dict.fromkeys(SEARCHES, 2.0 * PAGE)
    bounds |= {"name": ENTRIES / 1_000, "name and kind": ENTRIES / 1_000, "actor, refused": ENTRIES / 50}
    assert {name: read for name, read in wide.items() if read > bounds[name]} == {}


def test_the_counts_of_an_access_report_read_what_they_count_alone() -> None:
    """Of a month: its refusals and its changes of a few kinds, however long the log is."""
    with connection.cursor() as cursor:
        cursor.execute(FILL)
        cursor.execute("UPDATE audit_auditentry SET object_kind = 'key' WHERE object_kind = 'kind3'")
        cursor.execute("ANALYZE audit_auditentry")
    within = queries.entries(TENANT).filter(at__gte=MIDDLE, at__lt=MIDDLE + timedelta(hours=1))
    counted = {
        "refusals": within.filter(outcome="refused"),
        "activity": content.changing(within),
    }
    for name, rows in counted.items():
        left_out: dict[str, int] = {}
        with CaptureQueriesContext(connection) as caught:
            shown = content.counted(name, rows, {}, left_out)
        expected = rows.count()
        assert sum(one["times"] for one in shown) == expected > 0 and left_out == {}
        read = sum(_rows_read(query["sql"]) for query in caught.captured_queries)
        # A tenth of the log is another tenant's, and refusals are of every kind.
        assert read <= 1.3 * expected + PAGE, name
