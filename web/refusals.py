"""The text of a refusal for people: as a sentence."""


def as_sentence(text: str) -> str:
    """The text with a capital letter, unless it begins with a name, an address or a number, which stay as they are."""
    first = text.split(maxsplit=1)[:1]
    return text[:1].upper() + text[1:] if first and first[0].rstrip(",;:").isalpha() else text
