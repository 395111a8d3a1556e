"""The glossary names modules that exist, and words that it replaced do not come back."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .house import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
COVERED = (
    "billing",
    "control_plane/access",
    "control_plane/audit",
    "control_plane/brokers",
    "control_plane/outbox",
    "control_plane/placement",
    "control_plane/reconciliation",
    "control_plane/topics",
    "docs/README.md",
    "docs/billing.md",
    "docs/control-plane.md",
    "docs/data-sets.md",
    "docs/glossary.md",
    "docs/guides",
    "docs/metering.md",
    "docs/usage-pipeline.md",
    "penstock/rules/names.py",
    "penstock/rules/timestamps.py",
    "quotas",
    "spark_usage",
)
"""Folders and files whose names and texts keep to the table. Add a folder here once it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A banned word. `text` matches in comments, strings and Markdown, `name` is a part of a defined name."""

    name: str = ""
    text: str = ""
    instead: str
    reason: str
    allowed: frozenset[str] = frozenset()
    """Files where a stored format or another package's interface has the word."""


WORDS = (
    Word(
        name="told",
        text=r"told|(?:tells?|telling|telling it) of",
        instead="reported, delivered, logged",
        reason="it stood for answers, deliveries, log lines and readings",
    ),
    Word(
        name="held",
        instead="stored, observed, locked",
        reason="it stood for what brokers store, what a lock guards and what a producer waits for",
    ),
    Word(
        name="room", text="rooms?", instead="space, capacity", reason="it stood for disk, limits and buffers"
    ),
    Word(
        name="place",
        instead="partition, position, offset, key",
        reason="it stood for a partition, a byte, a tenant and a cursor",
    ),
    Word(name="cell", instead="partition record", reason="it also names a cluster in the metadata store"),
    Word(
        text=r"cuts? (?:off|back|short|above|below|down|out)|(?:is|are|was|were|be|been|being) cut",
        instead="truncate, remove, round down",
        reason="a cut is where a billing period ends in each log",
    ),
    Word(
        name="trust", instead="the check that is made", reason="it stood for the check of a store's history"
    ),
    Word(
        name="demand", instead="require, check, request", reason="it stood for checks and for request bodies"
    ),
    Word(
        name="settle",
        text=r"settle(?:s|ment)|settling",
        instead="finalize; record an outcome",
        reason="in billing a settlement is a payment",
        allowed=frozenset({"control_plane/outbox/actions.py", "control_plane/outbox/registry.py"}),
    ),
    Word(
        name="mend",
        text=r"mend(?:s|ed|ing)?",
        instead="finalize, repair",
        reason="no operator searches for it",
    ),
    Word(text=r"whoever|whomever", instead="who is meant", reason="plain English"),
    Word(text="nobody", instead="no broker, no user, none", reason="plain English"),
    Word(text="anew", instead="again, new", reason="plain English"),
    Word(text="for ever", instead="forever, without an end, permanently", reason="plain English"),
)


def covered() -> list[Path]:
    """Written files: no migrations, whose names are those of the database, and no generated pages."""
    found: list[Path] = []
    for name in COVERED:
        path = ROOT / name
        assert path.exists(), name
        found += [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.md")])
    return [path for path in found if "migrations" not in path.parts]


def defined_names(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def parts(name: str) -> list[str]:
    """`held_by_all` and `HeldByAll` have the same parts."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")


def texts(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """Comments and strings of a module; the lines of a page outside of code."""
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                for number, line in enumerate(token.string.splitlines(), token.start[0]):
                    yield number, line
        return
    fenced = False
    for number, line in enumerate(source.splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`|\([^)\s]*\)", "", line)


def breaches(path: Path, source: str, word: Word) -> list[int]:
    found = []
    if word.name and path.suffix == ".py":
        found += [line for line, name in defined_names(source) if word.name in parts(name)]
    if word.text:
        pattern = re.compile(rf"\b(?:{word.text})\b", re.IGNORECASE)
        found += [line for line, text in texts(path, source) if pattern.search(text)]
    return sorted(set(found))


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.name or word.text.split("|")[0])
def test_a_banned_word_does_not_come_back(word: Word) -> None:
    found = []
    for path in covered():
        name = str(path.relative_to(ROOT))
        lines = breaches(path, path.read_text(encoding="utf-8"), word)
        if name in word.allowed:
            assert lines, f"{name} no longer needs its exception"
        else:
            found += [f"{name}:{line}" for line in lines]
    assert not found, f"write instead: {word.instead} ({word.reason})\n" + "\n".join(found)


def test_the_check_sees_names_comments_strings_and_pages() -> None:
    told = next(word for word in WORDS if word.name == "told")
    module, page = Path("a.py"), Path("a.md")
    for source in (
        "def _told_again(): ...\n",
        "class ToldAgain: ...\n",
        "x = 1  # told\n",
        "x = f'{1} is told'\n",
    ):
        assert breaches(module, source, told) == [1], source
    assert breaches(module, "x.untold = 'untold'\n", told) == []
    assert breaches(page, "A tenant is told.\n", told) == [1]
    assert breaches(page, "`told`\n\n```\ntold\n```\n", told) == []


def rows() -> list[list[str]]:
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    table = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")
    ]
    return [row for row in table if row[0] != "term"]


def test_the_glossary_has_each_term_once_with_all_its_columns() -> None:
    terms = [row[0] for row in rows()]
    assert len(terms) >= 60
    assert len(set(terms)) == len(terms)
    assert not [row for row in rows() if len(row) != 5 or not all(row)]


def test_the_glossarys_modules_exist() -> None:
    missing = [row for row in rows() if not (ROOT / row[4].strip("`")).is_file()]
    assert not missing
