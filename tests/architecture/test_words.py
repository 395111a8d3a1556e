"""The glossary names modules that exist, and words that it replaced do not come back."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from .house import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
COVERED = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "benchmarks",
    "billing",
    "chaos",
    "control_plane",
    "daemon",
    "data_plane",
    "demo",
    "docs/README.md",
    "docs/architecture",
    "docs/architecture.md",
    "docs/benchmarks",
    "docs/billing.md",
    "docs/control-plane.md",
    "docs/data-sets.md",
    "docs/decisions",
    "docs/first-hour.md",
    "docs/glossary.md",
    "docs/guides",
    "docs/metering.md",
    "docs/reliability.md",
    "docs/site",
    "docs/usage-pipeline.md",
    "hosts",
    "local",
    "payments",
    "penstock",
    "quotas",
    "spark_usage",
    "tenants",
    "terraform",
    "web",
)
"""Folders and files whose names and texts keep to the table. Add a folder here once it does."""
SUFFIXES = (".py", ".md", ".html")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A banned word. `text` matches in comments, strings and Markdown, `name` is a part of a defined name."""

    name: str = ""
    text: str = ""
    instead: str
    reason: str
    allowed: frozenset[str] = frozenset()
    """Files where a stored format, a metric's name or another package's interface has the word."""


WORDS = (
    Word(
        name="told",
        text=r"told|(?:tells?|telling|telling it) of",
        instead="reported, delivered, logged",
        reason="it stood for answers, deliveries, log lines and readings",
        allowed=frozenset({"data_plane/metadata/lineage.py"}),
    ),
    Word(
        name="held",
        instead="stored, observed, locked, delayed, acknowledged",
        reason="it stood for what brokers store, what a lock guards and what a producer waits for",
        allowed=frozenset(
            {"data_plane/node/replicas/replica.py", "data_plane/node/stats.py", "penstock/contract/frames.py"}
        ),
    ),
    Word(
        name="room",
        text="rooms?",
        instead="space, capacity",
        reason="it stood for disk, limits and buffers",
        allowed=frozenset(
            {
                "data_plane/broker/sqlite_schema.py",
                "data_plane/node/replicas/committer.py",
                "data_plane/node/stats.py",
            }
        ),
    ),
    Word(
        name="place",
        instead="partition, position, offset, key",
        reason="it stood for a partition, a byte, a tenant and a cursor",
    ),
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
    ),
    Word(
        name="mend",
        text=r"mend(?:s|ed|ing)?",
        instead="finalize, repair",
        reason="no operator searches for it",
    ),
    Word(text=r"whoever|whomever", instead="who is meant", reason="plain English"),
    Word(
        text="nobody",
        instead="no broker, no user, none",
        reason="plain English",
        allowed=frozenset({"demo/servers.py"}),
    ),
    Word(text="somebody|everybody|anybody", instead="who is meant", reason="plain English"),
    Word(text="shall", instead="must, has to, is to", reason="plain English"),
    Word(text="he|him|his", instead="they, them, their; it", reason="a person is not always a man"),
    Word(text="anew", instead="again, new", reason="plain English"),
    Word(text="for ever", instead="forever, without an end, permanently", reason="plain English"),
)


def covered() -> list[Path]:
    """Written files: no migrations, whose names are those of the database, and no generated pages."""
    found: list[Path] = []
    for name in COVERED:
        path = ROOT / name
        assert path.exists(), name
        found += (
            [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES)
        )
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
    """Comments and strings of a module; the text of a template; the lines of a page outside of code."""
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                for number, line in enumerate(token.string.splitlines(), token.start[0]):
                    yield number, line
        return
    if path.suffix == ".html":
        for number, line in enumerate(source.splitlines(), 1):
            yield number, re.sub(r"\{[%{].*?[%}]\}|<[^>]*>", " ", line)
        return
    fenced = False
    for number, line in enumerate(source.splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`|\([^)\s]*\)", "", line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The parts of a file's defined names, and its texts, each with its line."""

    names: tuple[tuple[int, frozenset[str]], ...]
    texts: tuple[tuple[int, str], ...]


@cache
def words_of(path: Path) -> Words:
    """Read once for all banned words."""
    return read(path, path.read_text(encoding="utf-8"))


def read(path: Path, source: str) -> Words:
    names = defined_names(source) if path.suffix == ".py" else ()
    return Words(
        names=tuple((line, frozenset(parts(name))) for line, name in names), texts=tuple(texts(path, source))
    )


def breaches(words: Words, word: Word) -> list[int]:
    found = [line for line, name in words.names if word.name and word.name in name]
    if word.text:
        pattern = re.compile(rf"\b(?:{word.text})\b", re.IGNORECASE)
        found += [line for line, text in words.texts if pattern.search(text)]
    return sorted(set(found))


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.name or word.text.split("|")[0])
def test_a_banned_word_does_not_come_back(word: Word) -> None:
    found = []
    for path in covered():
        name = str(path.relative_to(ROOT))
        lines = breaches(words_of(path), word)
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
        assert breaches(read(module, source), told) == [1], source
    assert breaches(read(module, "x.untold = 'untold'\n"), told) == []
    assert breaches(read(page, "A tenant is told.\n"), told) == [1]
    assert breaches(read(page, "`told`\n\n```\ntold\n```\n"), told) == []
    template = Path("a.html")
    assert breaches(read(template, "<p>{{ name }} is told</p>\n"), told) == [1]
    assert breaches(read(template, '<p class="told">{% include "told.html" %}</p>\n'), told) == []


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
