"""The sentences that users read of a field, made from its description."""

from penstock.contract.resources.description import Field, Value


def meaning(field: Field) -> str:
    """What the field is, and what 0 means in it."""
    return with_clause(field.help, f"0 = {field.zero}") if field.zero else field.help


def meaning_in_answers(field: Field) -> str:
    """What the field is, and what null means in it."""
    return with_clause(meaning(field), f"null: {field.null}") if field.null else meaning(field)


def meaning_when_made(field: Field) -> str:
    """What the field is, and what a new object has without it; not said where that is nothing."""
    sentence = meaning(field)
    return f"{sentence} {shown(field.default)} unless given.".strip() if field.default else sentence


def with_clause(sentence: str, clause: str) -> str:
    """The sentence, with the clause at its end; the clause alone if there is no sentence."""
    return f"{sentence.removesuffix('.')}; {clause}." if sentence else f"{clause}."


def shown(value: Value | None) -> str:
    """For people: several values with `and` before the last."""
    if isinstance(value, tuple):
        words = [str(item) for item in value]
        return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
    return str(value)
