"""Commands about a tenant that API keys may not give: the options that say whose, and the client that they make."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click

from penstock.cli.cluster import operator_token
from penstock.cli.rest import client_with, rest_client, settings
from penstock.rest.client import RestClient

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., object])


def whose_option(of: str) -> Callable[[_FunctionT], _FunctionT]:
    """`--token-file` and `--tenant`: people and operators may do it. `of` says what of the tenant is meant."""

    def decorate(command: _FunctionT) -> _FunctionT:
        named = click.option(
            "--tenant",
            metavar="ID",
            help=f"Whose {of}; needed by operators, and by people with several tenants.",
        )(command)
        return click.option(
            "--token-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="File with an operator's token; without it the sign-in of the profile (penstock login), else its key.",
        )(named)

    return decorate


@contextmanager
def client_for(token_file: Path | None, tenant: str | None) -> Iterator[RestClient]:
    """REST as the operator of the file, else as the caller of the settings."""
    if token_file is None:
        with rest_client(tenant=tenant) as rest:
            yield rest
        return
    with client_with(settings(), operator_token(token_file), tenant=tenant) as rest:
        yield rest
