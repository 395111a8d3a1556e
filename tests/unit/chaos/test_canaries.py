"""The search for canaries finds each leak that is planted, by its kind and surface, and says so when it saw nothing."""

import json
from pathlib import Path

import pytest

from chaos.canaries import ANSWERED, MAY_STAND, Canary, Kind, Search, Surface, canaries_of
from chaos.history_lines import FILE
from chaos.judgement import judge, read_history
from chaos.summary import print_verdict

A = {kind: Canary(tenant="a", kind=kind, word=word) for kind, word in canaries_of().items()}
B = {kind: Canary(tenant="b", kind=kind, word=word) for kind, word in canaries_of().items()}


def searching() -> Search:
    search = Search()
    search.plant((*A.values(), *B.values()))
    return search


@pytest.mark.parametrize("kind", Kind)
def test_a_word_of_another_tenant_in_an_answer_is_found(kind: Kind) -> None:
    (leak,) = searching().answered("b", "DescribeGroup", b"\x0a\x1f" + A[kind].word.encode() + b"\x00")
    assert leak.canary == A[kind]
    assert str(leak).startswith(
        f"DescribeGroup to tenant b (an answer to a tenant) holds the {kind.value} of tenant a"
    )


def test_an_answer_may_hold_the_callers_own_and_what_the_question_named() -> None:
    search = searching()
    own = " ".join(canary.word for canary in B.values()).encode()
    assert search.answered("b", "Metadata", own) == []
    topic = A[Kind.TOPIC].word
    said = f"there is no topic {topic!r}".encode()
    assert search.answered("b", "Metadata", said, asked=[topic]) == []
    assert [leak.canary.kind for leak in search.answered("b", "Metadata", said)] == [Kind.TOPIC]
    (leak,) = search.answered("b", "Metadata", said + A[Kind.GROUP].word.encode(), asked=[topic])
    assert leak.canary.kind is Kind.GROUP


@pytest.mark.parametrize("surface", [surface for surface in Surface if surface is not Surface.ANSWER])
@pytest.mark.parametrize("kind", Kind)
def test_a_place_of_operators_holds_of_any_tenant_what_may_stand_there_alone(
    kind: Kind, surface: Surface
) -> None:
    line = json.dumps({"message": "condition", "fact": f"x{A[kind].word}y"}).encode()
    found = searching().of_operators(surface, "broker-1", line)
    assert [leak.canary for leak in found] == ([] if kind in MAY_STAND[surface] else [A[kind]])


@pytest.mark.parametrize("kind", [Kind.SECRET, Kind.MESSAGE_KEY, Kind.VALUE, Kind.HEADER, Kind.NOTE])
def test_no_content_and_no_secret_may_stand_anywhere(kind: Kind) -> None:
    assert all(kind not in allowed for allowed in MAY_STAND.values())


def test_a_search_that_never_saw_a_tenants_own_says_so() -> None:
    search = searching()
    assert len(search.not_heard()) == 2 * len(ANSWERED)
    for kind in ANSWERED:
        search.answered("a", "read", A[kind].word.encode())
        search.answered("b", "read", B[kind].word.encode() if kind is not Kind.NOTE else b"")
    assert search.not_heard() == [f"tenant b was never answered the {Kind.NOTE.value} of its own"]
    assert search.searched[Surface.ANSWER] == 2 * len(ANSWERED)


def test_words_that_cannot_be_told_apart_are_refused() -> None:
    search = Search()
    search.plant([Canary(tenant="a", kind=Kind.TOPIC, word="cn-1")])
    for word in ("cn-1", "cn-12", "n-1"):
        with pytest.raises(ValueError, match="cannot be distinguished"):
            search.plant([Canary(tenant="b", kind=Kind.TOPIC, word=word)])
    words = [word for _ in range(50) for word in canaries_of().values()]
    assert len(set(words)) == len(words)


def test_a_leak_fails_the_run_and_what_was_searched_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (leak,) = searching().answered("b", "Metadata", A[Kind.TOPIC].word.encode())
    searched = {"is": "canaries", "at": 2.0, "tenants": 2, "planted": 22, "sent": 5, "refused": 7}
    lines = [
        {"is": "anomaly", "at": 1.0, "invariant": "I24", "explanation": str(leak)},
        {**searched, "searched": {Surface.ANSWER.value: 90, Surface.LOG.value: 6}},
        {"is": "end", "at": 3.0},
    ]
    history = tmp_path / FILE
    history.write_text("".join(json.dumps(line) + "\n" for line in lines))
    verdict = judge(read_history(history))
    print_verdict(verdict, history)
    said = capsys.readouterr().out
    assert not verdict.passed
    assert "VIOLATED I24 (nothing of a tenant is answered to another one" in said
    assert "holds the topic name of tenant a" in said
    assert (
        "22 canaries of 2 tenants, who sent 5 messages and were refused 7 times; searched: 90 of an answer to a"
        in said
    )
