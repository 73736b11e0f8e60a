"""How texts of other users, and tracebacks, are printed on a terminal."""

import sys

import pytest

from knowhub.cli.output import make_printable
from knowhub.cli.serve import make_screen_renderer


@pytest.mark.parametrize(
    "text",
    [
        "第一章\u3000开头",
        "if x:\n\treturn",
        "10\u00a0000 €, 5\u202f%",
        "👨\u200d👩\u200d👧 ❤\ufe0f",
        "می\u200cخواهم",
        "Ünï cödé 𝒳",
    ],
)
def test_readable_text_is_printed_unchanged(text: str) -> None:
    assert make_printable(text) == text


def test_windows_line_endings_are_printed_as_newlines() -> None:
    assert make_printable("one\r\ntwo\r\n") == "one\ntwo\n"


@pytest.mark.parametrize(
    "sign", ["\x00", "\x07", "\b", "\r", "\x1b", "\x7f", "\x9b", "\u2028", "\u202e", "\u2066", "\ufeff", "\ud800"]
)
def test_terminal_control_characters_are_replaced(sign: str) -> None:
    assert make_printable(f"a{sign}b") == "a\N{REPLACEMENT CHARACTER}b"


def test_tracebacks_on_a_screen_show_no_variable_values() -> None:
    def fail(secret: str) -> None:
        assert secret
        raise ZeroDivisionError

    try:
        fail(bytes.fromhex("68756e74657232").decode())
    except ZeroDivisionError:
        found = sys.exc_info()
    line = make_screen_renderer()(None, "error", {"event": "unexpected_error", "level": "error", "exc_info": found})

    assert "ZeroDivisionError" in line
    assert "in fail" in line
    assert "hunter2" not in line
