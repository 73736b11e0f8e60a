"""What must not be lost or changed where texts are joined: figures, names, prohibitions."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from knowhub.core.near_duplicates import normalize_text, words

# Numbers with attached characters, addresses, code, and text in double quotation marks.
_FACT = re.compile(
    r"https?://[a-z0-9_.:/%@+~?&=#-]+|(?<![a-z0-9_.:/%@+-])[a-z_.:/%@+-]*\d[a-z0-9_.:/%@+-]*|`[^`\n]{1,200}`"
    r'|"[^"\n]{1,100}"|“[^”\n]{1,100}”|「[^」\n]{1,100}」|『[^』\n]{1,100}』'
)
_EDGES = '.:/-+%@`"“”「」『』'
_LETTERS = "A-Za-z\u00c0-\u024f\u0370-\u04ff"
_NAME = re.compile(rf"[{_LETTERS}][{_LETTERS}0-9_]+")
# A name is a whole word, or a part of a word that is joined by underscores.
_NAME_RUN = re.compile(rf"[{_LETTERS}0-9_]+")
_NAME_OR_PART = re.compile(rf"[{_LETTERS}0-9]+")
_LOOKED_BACK = 20
_SENTENCE_BEFORE = re.compile(rf"(?:^|[.!?。！？\n])[\s\"“「『(*#>-]{{0,{_LOOKED_BACK}}}$")

_CLAUSE_END = re.compile(r"\n+|[.!?,;:](?=\s|$)|[。！？，；：、]")
_NOT = re.compile(
    r"\b(?:never|not|no|none|nobody|nothing|nor|neither|cannot|without|avoid|forbidden|prohibited|unless)\b|n['’]t\b"
    r"|不|禁止|严禁|切勿|勿|没有|无法|无需|别再|别用"
)
_ONLY = re.compile(r"\b(?:only|solely|exclusively|except)\b|只能|只有|只用|只许|只准|仅|除非|除了")
_MIN_KEPT = 0.5
_SHORT = 3
_MAX_LOST = 10
# At most this many clauses of the new text are compared. Records with more rather stay separate.
_MAX_CLAUSES = 200


def find_missing_facts(before: Sequence[str], after: str) -> list[str]:
    """Return the first ten facts, names and prohibitions of the texts `before` that are not in the text `after`.

    Facts are figures, addresses, code and quotations. Names are words with a capital letter; at the beginning of a
    sentence, only those with another one. A prohibition or restriction is a clause with a word like *never* or *only*;
    the new text must have such a clause with half of its longer words. In doubt a fact counts as missing: records that
    stay separate lose nothing.
    """
    return list(islice(_find_missing(before, after), _MAX_LOST))


# Words that a text may have more than another one that says the same. All others may be a name, a figure or a negation.
_FILLERS = frozenset(
    (
        *("a", "an", "the", "and", "also", "too", "that", "this", "is", "are", "was", "were", "be", "been", "please"),
        *("really", "very", "so", "just", "of", "to", "in", "on", "at", "for", "i", "we", "my", "our"),
        *"的了吗呢吧啊也就都很请",
    )
)
_ENDINGS = ("ing", "ed", "es", "s")
_MIN_STEM = 4


def have_same_words(item: str, other: str) -> bool:
    """Return whether two texts have the same words, but for fillers and the endings of words."""
    first, second = ({_strip_ending(word) for word in words(text) - _FILLERS} for text in (item, other))
    return first == second


def _strip_ending(word: str) -> str:
    found = (word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending))
    return next((stem for stem in found if len(stem) >= _MIN_STEM), word)


def _find_missing(before: Sequence[str], after: str) -> Iterator[str]:
    new = normalize_text(after)
    facts = (fact.strip(_EDGES) for text in before for fact in _FACT.findall(normalize_text(text)))
    yield from (fact for fact in dict.fromkeys(facts) if fact and fact not in new)
    new_names = {*_NAME_RUN.findall(new), *_NAME_OR_PART.findall(new)}
    names = dict.fromkeys(name for text in before for name in _iter_names(text))
    yield from (name for name in names if normalize_text(name) not in new_names)
    yield from _find_missing_clauses(before, after)


def _iter_names(text: str) -> Iterator[str]:
    for found in _NAME.finditer(text):
        name = found[0]
        begins = _SENTENCE_BEFORE.search(text[max(0, found.start() - _LOOKED_BACK) : found.start()])
        if any(map(str.isupper, name[1:] if begins else name)):
            yield name


def _find_missing_clauses(before: Sequence[str], after: str) -> Iterator[str]:
    for pattern in (_NOT, _ONLY):
        new = [_list_key_words(clause, pattern) for clause in _list_clauses(after, pattern)[:_MAX_CLAUSES]]
        for clause in dict.fromkeys(clause for text in before for clause in _list_clauses(text, pattern)):
            own = _list_key_words(clause, pattern)
            if not any(len(own & other) >= _MIN_KEPT * len(own) for other in new):
                yield f"“{clause}”"


def _list_clauses(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the different clauses of a text that match a pattern."""
    clauses = dict.fromkeys(map(normalize_text, _CLAUSE_END.split(text)))
    return [clause for clause in clauses if pattern.search(clause)]


def _list_key_words(clause: str, pattern: re.Pattern[str]) -> frozenset[str]:
    """Return the words of a clause without the pattern: the longer words, or all if there are only short ones."""
    found = words(pattern.sub(" ", clause))
    return frozenset(word for word in found if len(word) > _SHORT or not word.isascii()) or found
