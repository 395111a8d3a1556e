"""What lets somebody in stands in no log, and what holds secrets is its owner's alone."""

import io
import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from control_plane import config
from control_plane.access import actions as access
from daemon import logs
from tenants import tokens
from tenants.people import actions as people
from tenants.people import queries
from tenants.roles import Role, Standing
from tests.control_plane.test_people import actor
from tests.control_plane.world import ACTOR, call, make_house


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Everything that is logged, in the form in which the service writes it."""
    kept = io.StringIO()
    handler = logging.StreamHandler(kept)
    handler.setFormatter(logs.JsonLines("web"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield kept
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.django_db
def test_an_invitations_link_is_not_in_the_log_however_it_is_asked_for(lines: io.StringIO) -> None:
    house = make_house("acme")
    _, token = people.invite(actor(house, Role.OWNER), house.tenant, email="zoe@else.example", role="auditor")
    for path in (
        f"/join/{token}",
        f"/join/{token}/",
        f"//join/{token}",
        f"/v1/topics/{token}",
        f"/sign-in?next=/join/{token}",
    ):
        Client().get(path)
    Client().post(f"/join/{token}", {"password": "short"})
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert "/join/psi_…" in [one.get("path") for one in told]
    assert token.removeprefix(tokens.INVITATION_PREFIX)[8:] not in lines.getvalue()
    assert queries.invitation_of(token).ended_at is None


@pytest.mark.django_db
def test_no_credential_is_in_the_log_in_whatever_field_it_is_sent(lines: io.StringIO) -> None:
    house = make_house("acme")
    _, key = access.create_key(ACTOR, house.tenant, name="app")
    secrets = {
        "key": key.reveal(),
        "session": house.credentials[Standing.OWNER],
        "operator": house.credentials[Standing.OPERATOR],
    }
    for secret in secrets.values():
        call("GET", f"/v1/keys/{secret}", token=secrets["key"])
        call("GET", f"/v1/tenants/{secret}", token=secret)
        logging.getLogger("test").warning("refused %s", secret, extra={"given": [secret]})
        try:
            raise ValueError(secret)
        except ValueError:
            logging.getLogger("test").exception("it broke")
    for name, secret in secrets.items():
        assert secret not in lines.getvalue(), name
        assert secret[-30:] not in lines.getvalue(), name
    assert f"penstock_test_{key.key_id}_…" in lines.getvalue(), "which key it was may be known"


def test_the_embedded_database_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "control.sqlite"
    settings = config.database(f"sqlite:///{file}")
    config.keep_private(settings)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    others = [file, tmp_path / "control.sqlite-wal", tmp_path / "control.sqlite-shm"]
    for one in others:
        one.touch()
        one.chmod(0o644)
    config.keep_private(settings)
    assert {stat.S_IMODE(one.stat().st_mode) for one in others} == {0o600}
    config.keep_private(config.database("postgresql://user:word@host/name"))
