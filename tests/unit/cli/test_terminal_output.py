"""What a terminal is shown of texts that somebody else wrote, and of a traceback."""

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
def test_what_can_be_read_stays_as_it_is(text: str) -> None:
    assert make_printable(text) == text


def test_lines_of_windows_end_as_others_do() -> None:
    assert make_printable("one\r\ntwo\r\n") == "one\ntwo\n"


@pytest.mark.parametrize(
    "sign", ["\x00", "\x07", "\b", "\r", "\x1b", "\x7f", "\x9b", "\u2028", "\u202e", "\u2066", "\ufeff", "\ud800"]
)
def test_what_a_terminal_would_obey_is_replaced(sign: str) -> None:
    assert make_printable(f"a{sign}b") == "a\N{REPLACEMENT CHARACTER}b"


def test_a_traceback_on_a_screen_shows_no_value_of_a_variable() -> None:
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
