"""What depends on the database most holds on SQLite too, on which a service on one machine runs by itself.

Locks, transactions, unique names, order and money: the other tests of this folder ask the database for nothing more.
What SQLite does in another way than PostgreSQL, and what is asked in words of its own, is in every run. Of the rest,
which asks it the same questions, a run takes an eighth of the files, by its seed, and all of them under FULL=1.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.control_plane.hostile import some_of
from tests.integration.installed import ROOT
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

HERE = Path(__file__).parent
DIFFERENT = [
    "billing/test_at_once.py",
    "billing/test_chain.py",
    "billing/test_issuer_numbers.py",
    "embedded",
    "test_audit_counts.py",
    "test_exact_names.py",
    "test_known_brokers.py",
    "test_outbox.py",
    "test_tenants_of_a_person.py",
    "test_topics.py",
]
"""Writers at once, locks, unique names and how they compare, numbers without gaps, statements of our own, and the file
itself.
"""
OF_ITS_OWN_WORDS = [
    "billing/test_cost_reports.py::test_rows_add_up_to_the_invoice_and_to_what_the_running_period_costs",
    "billing/test_measured.py::test_what_the_running_period_costs_is_summed_up_by_the_database",
    "billing/test_measured.py::test_whole_days_are_billed_once_and_what_comes_late_with_the_next_invoice",
]
"""Sums by month and unions of sums, which Django puts into other words for SQLite."""
ALIKE = [
    "test_accounts.py",
    "test_audit.py",
    "test_audit_search.py",
    "test_people.py",
    "test_reconciliation.py",
    "test_sign_ins.py",
]
"""And those of `billing` that are in none of these lists."""
FOR_ANY_DATABASE = (
    "bucket",
    "command_line",
    "documents",
    "evidence_bundles",
    "focus",
    "from_brokers_to_proof",
    "invoice_pdf",
    "loss_from_brokers",
    "rest",
    "terms_console",
    "terms_rest",
)
"""Of `billing` what is about files, documents, pages and brokers: it reads the rows that the others write."""
OF_POSTGRESQL = ("billing/test_usage_pages.py::test_a_page_of_usage_reads_the_rows_of_its_groups_alone",)
"""It reads PostgreSQL's plans of queries."""


def _alike() -> list[str]:
    """Every file that asks SQLite what it asks PostgreSQL."""
    of_billing = {f"billing/{path.name}" for path in (HERE / "billing").glob("test_*.py")}
    of_no_database = {f"billing/test_{name}.py" for name in FOR_ANY_DATABASE}
    assert of_no_database <= of_billing
    return sorted({*ALIKE, *of_billing} - of_no_database - set(DIFFERENT))


def test_what_depends_on_the_database_holds_on_sqlite(tmp_path: Path) -> None:
    alike = _alike()
    drawn = some_of(alike, len(alike) // 8)
    alone = [test for test in OF_ITS_OWN_WORDS if test.partition("::")[0] not in drawn]
    command = [
        *("-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-m", "not processes"),
        f"--randomly-seed={random.getrandbits(32)}",
        *(f"--deselect={HERE.relative_to(ROOT) / test}" for test in OF_POSTGRESQL),
        *(str((HERE / file).relative_to(ROOT)) for file in (*DIFFERENT, *alone, *drawn)),
    ]
    print("PENSTOCK_TEST_DATABASE_URL=sqlite:////tmp/control.sqlite .venv/bin/python", *command)
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PENSTOCK_TEST_DATABASE_URL": f"sqlite:///{tmp_path}/control.sqlite"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
