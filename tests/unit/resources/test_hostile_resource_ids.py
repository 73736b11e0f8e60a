"""Resource ids that try to leave a folder: every accepted id stays inside, however it is decoded."""

import os
import random
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from urllib.parse import unquote

import pytest

from knowhub.resources.decisions import MAX_ID_CHARS, check_resource_id, find_id_problem

ROOT = "/srv/hub/resources"
PIECES = (
    *("..", ".", "...", "/", "//", "\\", "..\\", "../", "/..", "./", "~", "~root", "C:", "file://", "http://h/"),
    *("%2e", "%2E%2e", "%252e%252e", "%2f", "%5c", "%00", "%c0%ae", "%u002e", "&#46;", "\\u002e", "${HOME}", "$(id)"),
    *("．", "．．", "‥", "․", "․․", "…", "／", "＼", "％", "％２ｅ", "﹒", "∕", "⁄", "⧵", "﹨", "。"),
    *("\0", "\n", "\r", "\t", "\x7f", "\x85", "\u2028", "\u200b", "\u202e", "\u2066", "\ufeff", "\ud800", "\U000e0001"),
    *("a", "code", "login", "密码", "مرحبا", "é", "e\u0301", ".meta.json", ".git", "CON", "nul", "aux.txt", " ", "  ."),
    *(
        "x" * 260,
        "密" * 200,
        "keys",
        "master.key",
        "change_log",
        "proc/self/environ",
        "etc/passwd",
        "*",
        "?",
        "|",
        ";",
        ":",
    ),
)


def hostile_ids(count: int, seed: int = 1) -> Iterator[str]:
    """Yield so many ids, the same ones for the same seed."""
    drawn = random.Random(seed)
    for _ in range(count):
        yield "".join(drawn.choices(PIECES, k=drawn.randint(1, 7)))


def nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)  # noqa: TID251 -- the text of this test


READINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "unquoted": lambda text: unquote(text, errors="replace"),
    "unquoted twice": lambda text: unquote(unquote(text, errors="replace"), errors="replace"),
    "normalised": nfkc,
    "normalised and unquoted": lambda text: unquote(nfkc(text), errors="replace"),
    "unquoted and normalised": lambda text: nfkc(unquote(text, errors="replace")),
    "with Windows' slashes": lambda text: text.replace("\\", "/"),
    "normalised, with Windows' slashes": lambda text: nfkc(text).replace("\\", "/"),
    "each part trimmed": lambda text: "/".join(part.strip() for part in text.split("/")),
}


def escapes(resource_id: str) -> list[str]:
    """Name the readings by which a resolver that joins and does not look would leave the folder, or stay at its top."""
    found = []
    for name, reading in READINGS.items():
        path = os.path.normpath(os.path.join(ROOT, reading(resource_id)))  # noqa: PTH118 -- as a careless resolver does
        if not path.startswith(f"{ROOT}/") or "\0" in path:
            found.append(name)
    return found


def check(count: int) -> None:
    taken = escaped = 0
    refused_escapes = dict.fromkeys(READINGS, 0)
    for resource_id in hostile_ids(count):
        ways = escapes(resource_id)
        if find_id_problem(resource_id) is None:
            taken += 1
            escaped += bool(ways)
            assert not ways, (resource_id, ways)
            assert len(resource_id) <= MAX_ID_CHARS
        for way in ways:
            refused_escapes[way] += 1

    assert escaped == 0
    # The corpus bites: a resolver without the check is led astray by every way of reading, and harmless ids are taken.
    assert all(found > count / 100 for found in refused_escapes.values()), refused_escapes
    assert taken > count / 100


@pytest.mark.parametrize("count", [10_000, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_hostile_ids_never_escape_the_folder(count: int) -> None:
    check(count)


@pytest.mark.parametrize(
    "resource_id", ["code/selenium/login", "a", "密码/网站 甲", ".meta.json", "a/.b/c..d", "...", "x" * 512]
)
def test_a_path_is_an_id(resource_id: str) -> None:
    assert find_id_problem(resource_id) is None
    assert check_resource_id(resource_id) == resource_id
    assert PurePosixPath(resource_id).parts
