"""Texts of any length that are hard to parse: hostile texts, and honest ones such as logs."""

import base64
import json
import random
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

_SENTENCES_ZH: Final = (
    "我叫李明，住在上海。",
    "他说：“今天天气不错”，然后走了。",
    "从那以后，每次出差之前我都先检查行李。",
    "我们的项目叫阿波罗，用的是Go。",
    "密码是什么？",
    "昨天我搬到了北京。\n",
    "我喜欢喝茶，不喜欢咖啡。",
)
_SENTENCES_EN: Final = (
    "I prefer tabs over spaces. ",
    "My sister Anna lives in Berlin. ",
    "Yesterday I moved to Paris. ",
    "Always run the tests before you commit. ",
    "The password is hunter2! ",
    "Our project is called Apollo. ",
    "It failed, and I fixed it by restarting.\n",
)


def _repeat(unit: str) -> Callable[[int], str]:
    return lambda chars: (unit * (chars // len(unit) + 1))[:chars]


def _draw(units: tuple[str, ...]) -> Callable[[int], str]:
    return lambda chars: "".join(random.Random(1).choices(units, k=chars))[:chars]


def _base64(chars: int) -> str:
    return base64.b64encode(random.Random(2).randbytes(chars)).decode()[:chars]


def _wrap(make_text: Callable[[int], str], width: int) -> Callable[[int], str]:
    def make_lines(chars: int) -> str:
        text = make_text(chars)
        return "\n".join(text[start : start + width] for start in range(0, len(text), width))[:chars]

    return make_lines


def _novel(chars: int) -> str:
    chance = random.Random(11)
    letters = "他看了看窗外天色已晚街上的行人渐渐少了只有几盏路灯还亮着远处传来火车的声音走吧她说明天我还要早起"
    sentences = (
        "".join(chance.choices(letters, k=chance.randrange(6, 30))) + chance.choice("，，。！？")
        for _ in range(chars // 7 + 1)
    )
    return "".join(sentences)[:chars]


def _log(chars: int) -> str:
    line = "2024-01-{:02} 12:30:{:02} ERROR worker-{} failed: connection refused to 10.0.0.{}:8080\n"
    return "".join(line.format(at % 28 + 1, at % 60, at, at % 256) for at in range(chars // 60 + 1))[:chars]


def _json(chars: int) -> str:
    rows = [{"id": at, "user_name": f"u{at}", "password": f"p{at}x!", "ok": True} for at in range(chars // 40 + 1)]
    return json.dumps(rows, separators=(",", ":"))[:chars]


def _make_clauses(chars: int) -> str:
    """Return clauses that all differ: what holds each against each is slow with these."""
    text = ""
    numbers = count()
    parts: list[str] = []
    while len(text) < chars:
        parts += [f"- no a{next(numbers)}, never b{next(numbers)}\n" for _ in range(chars // 20 + 1)]
        text = "".join(parts)
    return text[:chars]


HOSTILE_TEXTS: Final[Mapping[str, Callable[[int], str]]] = {
    "capitals": _repeat("A"),
    "digits": _repeat("1"),
    "spaces": _repeat(" "),
    "newlines": _repeat("\n"),
    "quotes": _repeat('"'),
    "opening quotes": _repeat("「"),
    "brackets": _repeat("[ "),
    "bullets": _repeat("- a\n"),
    "steps": _repeat("steps:\n1. a\n2. b\n3. c\n"),
    "order": _repeat("then "),
    "marks": lambda chars: "a" + "\u0300" * (chars // 2) + "\u0316" * (chars // 2),
    "introductions": _repeat("我养妹妹叫做a"),
    "names": _repeat("My sister A"),
    "base64": _base64,
    "DNA": _draw(tuple("ACGT")),
    "base64 lines": _wrap(_base64, 76),
    "DNA lines": _wrap(_draw(tuple("ACGT")), 60),
    "Chinese": _draw(_SENTENCES_ZH),
    "novel": _novel,
    "talk": _draw(_SENTENCES_EN),
    "log": _log,
    "JSON": _json,
    "clauses": _make_clauses,
}
