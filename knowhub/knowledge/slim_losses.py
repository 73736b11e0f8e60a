"""What must not be lost where a model puts records into other words: figures, names, quotations, prohibitions."""

import re
from collections.abc import Iterator, Sequence

from knowhub.core.shingles import normalised_text, words

# Figures with what is glued to them, addresses, code, and what stands between double quotation marks.
_FACT = re.compile(
    r"https?://[a-z0-9_.:/%@+~?&=#-]+|[a-z0-9_.:/%@+-]*\d[a-z0-9_.:/%@+-]*|`[^`\n]{1,200}`"
    r'|"[^"\n]{1,100}"|“[^”\n]{1,100}”|「[^」\n]{1,100}」|『[^』\n]{1,100}』'
)
_EDGES = '.:/-+%@`"“”「」『』'
_LETTERS = "A-Za-z\u00c0-\u024f\u0370-\u04ff"
_NAME = re.compile(rf"[{_LETTERS}][{_LETTERS}0-9_]+")
_SENTENCE_BEFORE = re.compile(r"(?:^|[.!?。！？\n])[\s\"“「『(*#>-]*$")
_LOOKED_BACK = 20

_CLAUSE_END = re.compile(r"\n+|[.!?,;:](?=\s|$)|[。！？，；：、]")
_NOT = re.compile(
    r"\b(?:never|not|no|none|nobody|nothing|nor|neither|cannot|without|avoid|forbidden|prohibited|unless)\b|n['’]t\b"
    r"|不|禁止|严禁|切勿|勿|没有|无法|无需|别再|别用"
)
_ONLY = re.compile(r"\b(?:only|solely|exclusively|except)\b|只能|只有|只用|只许|只准|仅|除非|除了")
_LEAST_KEPT = 0.5
_SHORT = 3


def lost_facts(before: Sequence[str], after: str) -> list[str]:
    """Return what stood in one of the texts and does not in the new one: facts, names, prohibitions.

    Facts are figures, addresses, code and quotations. Names are words with a capital; at the beginning of a sentence,
    only those with another one. A prohibition or restriction is a clause with a word like *never* or *only*: the new
    text must have a clause with such a word, too, and in it half of the longer words. It rather names too much than too
    little: records that stay apart have lost nothing.
    """
    kept = normalised_text(after)
    facts = (fact.strip(_EDGES) for text in before for fact in _FACT.findall(normalised_text(text)))
    lost = [fact for fact in dict.fromkeys(facts) if fact and fact not in kept]
    named = dict.fromkeys(name for text in before for name in _names(text))
    lost += [name for name in named if not _has_name(kept, normalised_text(name))]
    return lost + _lost_clauses(before, after)


def _has_name(kept: str, name: str) -> bool:
    return re.search(rf"(?<![{_LETTERS}0-9]){re.escape(name)}(?![{_LETTERS}0-9])", kept) is not None


def _names(text: str) -> Iterator[str]:
    for found in _NAME.finditer(text):
        name = found[0]
        begins = _SENTENCE_BEFORE.search(text[max(0, found.start() - _LOOKED_BACK) : found.start()])
        if any(map(str.isupper, name[1:] if begins else name)):
            yield name


def _lost_clauses(before: Sequence[str], after: str) -> list[str]:
    lost: dict[str, None] = {}
    for sign in (_NOT, _ONLY):
        kept = [_telling(clause, sign) for clause in _clauses(after, sign)]
        for text in before:
            for clause in _clauses(text, sign):
                own = _telling(clause, sign)
                if not any(len(own & other) >= _LEAST_KEPT * len(own) for other in kept):
                    lost[f"“{clause}”"] = None
    return list(lost)


def _clauses(text: str, sign: re.Pattern[str]) -> list[str]:
    return [clause for clause in map(normalised_text, _CLAUSE_END.split(text)) if sign.search(clause)]


def _telling(clause: str, sign: re.Pattern[str]) -> frozenset[str]:
    """Return the words that say what is not to be, or is only to be; short ones where there are no others."""
    found = words(sign.sub(" ", clause))
    return frozenset(word for word in found if len(word) > _SHORT or not word.isascii()) or found
