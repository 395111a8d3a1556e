"""What depends on the database most holds on SQLite too, on which a service on one machine runs by itself.

Locks, transactions, unique names, order and money: the other tests of this folder ask the database for nothing more.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.installed import ROOT
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

HERE = Path(__file__).parent
FILES = [
    "test_accounts.py",
    "test_audit.py",
    "test_audit_counts.py",
    "test_audit_search.py",
    "test_exact_names.py",
    "test_known_brokers.py",
    "test_outbox.py",
    "test_people.py",
    "test_reconciliation.py",
    "test_sign_ins.py",
    "test_tenants_of_a_person.py",
    "test_topics.py",
    "billing",
    "embedded",
]
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


def test_what_depends_on_the_database_holds_on_sqlite(tmp_path: Path) -> None:
    assert all((HERE / "billing" / f"test_{name}.py").exists() for name in FOR_ANY_DATABASE)
    ran = subprocess.run(
        [
            sys.executable,
            *("-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-m", "not processes"),
            *(f"--deselect={HERE.relative_to(ROOT) / test}" for test in OF_POSTGRESQL),
            *(f"--ignore={HERE / 'billing' / f'test_{name}.py'}" for name in FOR_ANY_DATABASE),
            *(str(HERE / file) for file in FILES),
        ],
        cwd=ROOT,
        env={**os.environ, "PENSTOCK_TEST_DATABASE_URL": f"sqlite:///{tmp_path}/control.sqlite"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
