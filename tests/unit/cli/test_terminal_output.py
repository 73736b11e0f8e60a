"""What a terminal is given of texts that somebody else wrote: all that can be read, and nothing that it would obey."""

import pytest

from knowhub.cli.output import make_printable


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
