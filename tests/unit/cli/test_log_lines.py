"""A traceback in the log names places, and never what stood in a variable there."""

import sys

from knowhub.cli.serve import make_screen_renderer


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
