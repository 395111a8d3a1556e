"""Every command has an answer for programs: one JSON document a line on the standard output, and errors as one too."""

import json
import shlex
from typing import Any

import pytest

from tests.end_to_end.docs.conftest import Reader

pytestmark = [pytest.mark.processes, pytest.mark.slow]

COMMANDS = """
topic create shop.sales --partitions 2
topic list
topic describe shop.sales --offsets
topic alter shop.sales --partitions 3
produce shop.sales one two
consume shop.sales
consume shop.sales --group billing
group list
group describe billing
group reset billing --to earliest --dry-run
group reset billing --to latest --yes
group delete billing --yes
key create --name till
key list
whoami
tenant show
tenant plans
tenant preview committed
audit verify
usage
invoice list
topic delete shop.sales --yes
topic bin
topic restore shop.sales
topic delete shop.sales --yes
topic purge shop.sales --yes
dev status
doctor
completion zsh
""".strip().splitlines()
REFUSED = {
    "topic describe none": 3,
    "topic create shop.sales --partitions 0": 5,
    "group describe none": 3,
    "logout": 3,
    "key revoke key_none --yes": 3,
    "invoice show inv_none": 3,
    "verify-invoice inv_none": 3,
    "consume none": 3,
    "consume": 2,
    "produce none one --timeout 5": 3,
}


def documents(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_command_answers_in_json(reader: Reader) -> None:
    for words in COMMANDS:
        ended = reader.run("penstock", *shlex.split(words), "--json")
        assert ended.returncode == 0, f"{words}: {ended.stderr}"
        assert documents(ended.stdout), words


def test_every_refusal_is_json_too_and_has_its_exit_code(reader: Reader) -> None:
    for words, code in REFUSED.items():
        ended = reader.run("penstock", *shlex.split(words), "--json")
        assert ended.returncode == code, f"{words}: {ended.returncode} {ended.stderr}"
        error = documents(ended.stderr.splitlines()[-1])[0]["error"]
        assert error["exit_code"] == code and error["message"], words
        assert code == 2 or error["remedy"], words
