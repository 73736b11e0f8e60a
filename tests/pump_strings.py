"""Texts that make a slow pattern slow: a repeated unit, chosen from the text of the pattern."""

import importlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple


class Pump(NamedTuple):
    """A text of any length: `head`, then `unit` repeated, then `tail`."""

    head: str
    unit: str
    tail: str = ""

    def make_text(self, chars: int) -> str:
        """Return a text with about so many characters."""
        return self.head + (self.unit * (chars // len(self.unit) + 1))[:chars] + self.tail


# Letters and what joins them; punctuation, brackets and quotes; Chinese, full-width forms and symbols; addresses,
# encoded data and credentials.
_WITHOUT_SPACES: Final = r"""
    a A 1 _ ab aB a1 a. a- a_ a= 1- 1. 1: deadbeef
    - . , : / | # ' " ` \" \ ( [ { ) ] < > = <a> {"a":
    中 ， 。 ： 「 “ “” 《 （） 我 我是 不 １ Ａ 一二三 1月2日 😀
    http://a.b/ https://a/?b= aGVsbG8= QUJDREVG ACGT sk-abc123 AKIA eyJhbGciOi. key= 密码是 \u0041
"""
_WITH_SPACES: Final = (
    *("Ab ", "a ", "A ", "1 ", "a: ", "1,000 ", "The ", "中 "),
    *(" ", "\n", "\t", "\r\n", "\n\n ", " \n", "\u3000", "\u200b", "\u0300", "- ", "> ", "'a ", "```\n"),
    *("a@b.", "2024-01-02 ", "12:30 ", "[10:02] ", "-----BEGIN ", "password: ", "password is ", "Alex: "),
    *("my sister ", "my name is ", "I am ", "i ", "from now on ", "always ", "error: "),
)
PUMPS: Final[Sequence[Pump]] = tuple(Pump("", unit) for unit in (*_WITHOUT_SPACES.split(), *_WITH_SPACES))

# `re` has no public parser. Only its private parser reads every pattern as `re` does.
_parser: Final[Any] = importlib.import_module("re._parser")
_LONG_REPEAT: Final = 16
_TRIED: Final = "aA1 \n-_.,:;/\"'中，（=@\\[(<é\x00"
_LOOPS: Final = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def suggest_pumps(pattern: re.Pattern[Any]) -> list[Pump]:
    """Return texts that a pattern nearly matches: what comes before each of its loops, then repeats of the loop."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    pumps: dict[Pump, None] = {}
    for before, body, behind in _loops(list(_parser.parse(source, pattern.flags & ~re.DEBUG)), ""):
        whole = before + body
        for head, unit in (
            ("", before),
            ("", body),
            ("", whole),
            ("", whole + behind),
            ("", before + behind),
            (before, body),
            (before, body + behind),
        ):
            if unit:
                # No pattern ends with NUL: what fits up to the end of a text fits here nearly so, and then fails.
                pumps[Pump(head, unit, "\x00")] = None
    return list(pumps)


def _loops(nodes: Sequence[Any], before: str) -> Iterator[tuple[str, str, str]]:
    """Yield every long loop of a parsed pattern: texts that match before it, in it and after it."""
    for at, node in enumerate(nodes):
        name, value = str(node[0]), node[1]
        for inner in _parts(name, value):
            yield from _loops(list(inner), before)
        if name in _LOOPS and value[1] >= _LONG_REPEAT:
            behind = _sample(nodes[at + 1 :])
            for body in _samples(list(value[2])):
                if body:
                    yield before, body, behind
        before += _sample([node])


def _parts(name: str, value: Any) -> Sequence[Any]:  # noqa: ANN401 -- what the private parser of `re` makes
    match name:
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return [value[2]]
        case "BRANCH":
            return list(value[1])
        case "SUBPATTERN":
            return [value[3]]
        case "ATOMIC_GROUP":
            return [value]
        case "ASSERT" | "ASSERT_NOT":
            return [value[1]]
    return []


def _sample(nodes: Sequence[Any]) -> str:
    """Return a short text that these nodes match, or nearly match."""
    return "".join(next(iter(_samples([node])), "") for node in nodes)


def _samples(nodes: Sequence[Any]) -> list[str]:
    """Return short texts that these nodes match; of a single node one for each kind of character, or each branch."""
    if len(nodes) != 1:
        return [_sample(nodes)]
    name, value = str(nodes[0][0]), nodes[0][1]
    if name == "LITERAL":
        return [chr(value)]
    if name in {"NOT_LITERAL", "ANY", "IN"}:
        return _characters(name, value)
    if name in _LOOPS:
        return [_sample(list(value[2])) * value[0]]
    if name in {"SUBPATTERN", "ATOMIC_GROUP"}:
        return _samples(list(_parts(name, value)[0]))
    return [_sample(list(branch)) for branch in value[1]] if name == "BRANCH" else [""]


def _characters(name: str, value: Any) -> list[str]:  # noqa: ANN401 -- as above
    if name == "ANY":
        return ["a", " "]
    if name == "NOT_LITERAL":
        return [char for char in _TRIED if ord(char) != value][:6]
    own = [
        chr(item[1] if str(item[0]) == "LITERAL" else item[1][0])
        for item in value
        if str(item[0]) in {"LITERAL", "RANGE"}
    ]
    is_negated = str(value[0][0]) == "NEGATE"
    found = [char for char in dict.fromkeys((*_TRIED, *own)) if any(_holds(item, char) for item in value) != is_negated]
    return found[:6]


def _holds(item: Any, char: str) -> bool:  # noqa: ANN401 -- as above
    match str(item[0]):
        case "LITERAL":
            return bool(item[1] == ord(char))
        case "RANGE":
            return bool(item[1][0] <= ord(char) <= item[1][1])
        case "CATEGORY":
            kind = str(item[1])
            inside = {
                "DIGIT": char.isdigit(),
                "SPACE": char.isspace(),
                "WORD": char.isalnum() or char == "_",
            }[kind.rpartition("_")[2]]
            return inside != ("_NOT_" in kind)
    return False
