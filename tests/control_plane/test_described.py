"""What is made from descriptions of resources agrees with the tables, the operations and the guide."""

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from django.urls import get_resolver

from control_plane.rest import described
from control_plane.rest.views import TenantView
from docs.reference import resources as written
from penstock.cli import described as commands
from penstock.contract.invariant import InvariantBroken
from penstock.contract.resources import ALL, BUDGETS, LIMITS
from penstock.contract.resources.description import Method, Resource
from quotas.budget_actions import CHANGEABLE
from quotas.models import Quota
from quotas.plans import Limits
from tests.control_plane.test_permissions import routes
from web.forms.console_form import ConsoleForm
from web.forms.described import with_fields

ROOT = Path(__file__).parents[2]
HTTP = {
    Method.LIST: "GET",
    Method.CREATE: "POST",
    Method.READ: "GET",
    Method.CHANGE: "PATCH",
    Method.SET: "PUT",
    Method.REMOVE: "DELETE",
}


@pytest.fixture
def reminders() -> Resource:
    """The resource that the guide adds."""
    guide = (ROOT / "docs/guides/adding-a-resource.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", guide, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    resource: Resource = names["REMINDERS"]
    return resource


def test_a_limit_is_described_where_plans_and_tenants_have_it() -> None:
    described_names = [limit.name for limit in LIMITS]
    assert list(Limits.__dataclass_fields__) == described_names
    columns = {column.name for column in Quota._meta.get_fields()}
    assert columns >= set(described_names)


def test_what_a_budget_may_change_is_what_its_description_says() -> None:
    assert set(CHANGEABLE) == {"name", "amount", "policy", "thresholds", "slow_bytes_per_s"}


@pytest.mark.parametrize("resource", ALL, ids=lambda resource: resource.name)
def test_each_verb_is_an_operation_that_requires_what_it_says(resource: Resource) -> None:
    lists = any(verb.method is Method.LIST for verb in resource.verbs)
    for verb in resource.verbs:
        of_all = verb.method in (Method.LIST, Method.CREATE) or not lists
        (view,) = views_at(f"v1{resource.path}" + ("" if of_all else r"(/<[^/]+>)+"))
        method = HTTP[verb.method]
        assert view.permissions[method] == verb.permission, verb.operation
        assert (method in view.conditional) == verb.conditional, verb.operation
        assert (method in view.dry_run) == verb.dry_run, verb.operation
        assert getattr(view, method.lower()).__doc__ == verb.about


def views_at(route: str) -> list[Any]:
    """Views whose address matches."""
    return [
        vars(pattern.callback)["view_class"]
        for path, pattern in routes(get_resolver().url_patterns)
        if re.fullmatch(route, path)
    ]


def test_the_guides_resource_has_bodies_an_answer_options_boxes_and_attributes(reminders: Resource) -> None:
    body = described.made_of(reminders, "ReminderInput")(data={"name": "pay"})
    assert body.is_valid() and body.validated_data == {"name": "pay", "days_before": 7}
    wrong = described.made_of(reminders, "ReminderInput")(data={"name": "pay", "days_before": 28})
    assert not wrong.is_valid() and wrong.errors["days_before"] == ["28 is not within 0 to 27"]
    shape = described.shape_of(reminders.fields, "ReminderShape")
    assert list(shape().fields) == ["id", "name", "days_before", "created_at"]

    @click.command()
    @commands.options_to_make(reminders)
    def make(**given: Any) -> None:
        click.echo(json.dumps(commands.body(given)))

    assert json.loads(CliRunner().invoke(make, ["--name", "pay"]).output) == {"name": "pay", "days_before": 7}
    shown = CliRunner().invoke(make, ["--help"]).output
    assert "It comes so many days before the month ends; 0" in " ".join(shown.split())

    form = with_fields(ConsoleForm, [field for field in reminders.fields if field.label])
    assert form({"name": "pay", "days_before": "28"}).errors["days_before"] == ["28 is not within 0 to 27"]

    attributes = written.resource_document(reminders)["fields"]
    assert [attribute["name"] for attribute in attributes] == ["name", "days_before"]
    assert attributes[1]["default"] == 7 and attributes[1]["meaning"].endswith("7 unless given.")


def test_a_view_without_a_described_verb_is_refused(reminders: Resource) -> None:
    shape = described.shape_of(reminders.fields, "ReminderShape")
    with pytest.raises(InvariantBroken, match="reminder"):
        described.operations(reminders, Method.REMOVE, shape=shape)(TenantView)


def test_a_budget_counts_reads_wherever_it_is_made() -> None:
    """The provider had no such field, and a budget that refuses readers showed no difference."""
    provider = json.loads(written.written())
    (budget,) = [resource for resource in provider if resource["name"] == "budget"]
    given = {field["name"] for field in budget["fields"]}
    bodies = set(described.made_of(BUDGETS, "BudgetInput")().fields)
    assert given == bodies and "counts_reads" in given
