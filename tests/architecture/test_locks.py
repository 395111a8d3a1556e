"""Row locks of the control plane let others refer to the row.

PostgreSQL checks a foreign key at the end of the referring transaction, with a lock that a plain FOR UPDATE of the
referred row keeps out: a key that is made while its tenant is locked would wait for the tenant, whose holder waits for
the audit log's head that the key's transaction has. FOR NO KEY UPDATE excludes other writers of the row as well.
"""

import ast

from tests.architecture import house

APPS = ("billing", "control_plane", "quotas", "tenants", "web")


def test_every_row_lock_lets_others_refer_to_the_row() -> None:
    found, wrong = 0, []
    for app in APPS:
        for path in house.modules(app):
            for node in ast.walk(house.tree(path)):
                called = node.func if isinstance(node, ast.Call) else None
                if isinstance(called, ast.Attribute) and called.attr == "select_for_update":
                    found += 1
                    if "no_key" not in ast.unparse(node):
                        wrong.append(house.site(path, node))
    assert found > 20
    assert wrong == []


def test_no_row_is_locked_because_it_is_read_with_another_one() -> None:
    """FOR UPDATE of a join locks the rows of all its tables, in whatever order the plan has."""
    wrong = []
    for app in APPS:
        for path in house.modules(app):
            for node in ast.walk(house.tree(path)):
                text = ast.unparse(node) if isinstance(node, ast.Call) else ""
                if "select_for_update(" in text and "select_related(" in text and "of=('self',)" not in text:
                    wrong.append(house.site(path, node))
    assert wrong == []
