"""Modules have names that say what they are, one stated purpose, and a size that one purpose needs."""

import ast
import io
import tokenize

from . import house

MEANINGLESS = frozenset(
    {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager", "managers"}
)
LINES_MAX = 550
"""A module near 500 lines has two purposes; the rest is room to finish a thought."""
TEST_LINES_MAX = 700
"""Tests of one subject may be many; each is read alone."""


def every_module() -> list[str]:
    paths = [*house.modules(*house.existing(house.TOP)), *sorted((house.ROOT / "tests").rglob("*.py"))]
    return [str(path.relative_to(house.ROOT)) for path in paths]


def test_no_module_or_package_has_a_name_that_says_nothing() -> None:
    found = [name for name in every_module() if MEANINGLESS & {*name.removesuffix(".py").split("/")}]
    assert not found


def test_every_module_states_its_purpose_in_its_first_line() -> None:
    found = []
    for name in every_module():
        path = house.ROOT / name
        if path.name == "__init__.py" and not path.read_text(encoding="utf-8").strip():
            assert name.startswith("tests/"), f"{name}: an empty package tells its purpose in a docstring"
            continue
        docstring = first_string(path.read_text(encoding="utf-8"))
        if not docstring or not docstring.splitlines()[0].strip():
            found.append(name)
    assert not found


def first_string(source: str) -> str | None:
    """The docstring of a module, without parsing the rest of it."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            found = ast.literal_eval(token.string) if token.type == tokenize.STRING else None
            return found if isinstance(found, str) else None
    return None


def test_a_docstring_is_the_first_thing_of_a_module_but_for_comments() -> None:
    assert first_string('# a comment\n\n"""One purpose."""\nimport ast\n') == "One purpose."
    assert first_string('import ast\n"""One purpose."""\n') is None
    assert first_string("b'One purpose.'\n") is None
    assert first_string("") is None


def test_no_module_has_outgrown_its_purpose() -> None:
    sizes = {
        name: len((house.ROOT / name).read_text(encoding="utf-8").splitlines()) for name in every_module()
    }
    found = {
        name: lines
        for name, lines in sizes.items()
        if lines > (TEST_LINES_MAX if name.startswith("tests/") else LINES_MAX)
    }
    assert not found, f"too long: {found}"


def test_tests_are_packages_below_the_tests_folder_only() -> None:
    tests = house.ROOT / "tests"
    assert not (tests / "__init__.py").exists()
    folders = {path.parent for path in tests.rglob("*.py")} - {tests}
    missing = [
        str(path.relative_to(house.ROOT)) for path in sorted(folders) if not (path / "__init__.py").exists()
    ]
    assert not missing


def test_no_folder_of_tests_is_named_like_an_installed_package() -> None:
    taken = {"django", "spark", "pyspark", "stripe", "redis", "celery", "kafka", "grpc", *house.TOP}
    folders = {path.name for path in (house.ROOT / "tests").iterdir() if path.is_dir()}
    assert folders.isdisjoint(taken - {"control_plane", "spark_usage"})


def test_no_source_holds_an_unfinished_mark() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "X" + "XX")
    found = [
        f"{name}:{number}"
        for name in every_module()
        for number, line in enumerate((house.ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        if any(mark in line for mark in marks)
    ]
    assert not found
