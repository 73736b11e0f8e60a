"""Texts of any length that cost a reader most, and honest ones that look like them."""

import base64
import json
import random

_WORDS = [
    "the",
    "deploy",
    "of",
    "service",
    "failed",
    "because",
    "its",
    "token",
    "expired",
    "so",
    "we",
    "retry",
    "works",
]
_CHARACTERS = "他看了看窗外天色已晚街上的行人渐渐少了只有几盏路灯还亮着远处传来火车的声音走吧她说明天我还要早起"


def _repeat(piece: str, size: int) -> str:
    return (piece * (size // len(piece.encode()) + 1)).encode()[:size].decode(errors="ignore")


def _random_text(size: int, alphabet: str) -> str:
    return "".join(random.Random(size).choices(alphabet, k=size))


def _logs(size: int) -> str:
    chance, lines, length = random.Random(7), [], 0
    while length < size:
        clock = f"2026-03-{chance.randrange(1, 29):02} 12:{chance.randrange(60):02}:07,{chance.randrange(999):03}"
        line = f"{clock} ERROR worker-{chance.randrange(99)} {' '.join(chance.choices(_WORDS, k=12))}"
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)[:size]


def _lines(text: str, width: int) -> str:
    return "\n".join(text[start : start + width] for start in range(0, len(text), width))


def _base64(size: int) -> str:
    return base64.b64encode(random.Random(3).randbytes(size * 3 // 4)).decode()


def _json(size: int) -> str:
    chance = random.Random(5)
    rows = [
        {
            "id": number,
            "name": chance.choice(_WORDS),
            "tags": chance.sample(_WORDS, 3),
            "ok": True,
            "cost": chance.random(),
        }
        for number in range(size // 80)
    ]
    return _repeat(json.dumps(rows, separators=(",", ":")), size)


def _novel(size: int) -> str:
    chance, pieces, length = random.Random(11), [], 0
    while length < size:
        sentence = "".join(chance.choices(_CHARACTERS, k=chance.randrange(6, 30))) + chance.choice("，，。！？")
        pieces.append(sentence)
        length += 3 * len(sentence)
    return "".join(pieces).encode()[:size].decode(errors="ignore")


HOSTILE = {
    "capitals": lambda size: "A" * size,
    "base64-line": _base64,
    "dna-line": lambda size: _random_text(size, "ACGT"),
    "quotes": lambda size: '"' * size,
    "brackets": lambda size: "[" * size,
    "newlines": lambda size: "\n" * size,
    "digits": lambda size: "1" * size,
}
HONEST = {
    "logs": _logs,
    "base64-lines": lambda size: _lines(_base64(size), 76),
    "dna-lines": lambda size: _lines(_random_text(size, "ACGT"), 60),
    "json": _json,
    "novel": _novel,
}
TEXTS = HOSTILE | HONEST
