"""Large JSON bodies are parsed like orjson does, in short steps."""

import gc
import json
import threading
import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.core.json_strings import StringSpan, cut_string, find_strings
from knowhub.web.json_parsing import parse_json

MIB = 1024 * 1024
TEXTS = st.text(st.sampled_from('"\\/u[]{},:a\n\x00é索🙂'), max_size=40)
VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(TEXTS, st.booleans(), st.integers(14, 40))
def test_each_piece_of_a_string_is_a_string(text: str, is_ascii: bool, most: int) -> None:
    written = json.dumps(text * 4, ensure_ascii=is_ascii).encode()

    pieces = [orjson.loads(b'"%s"' % piece) for piece in cut_string(written, StringSpan(0, len(written)), most)]

    assert "".join(pieces) == text * 4


@given(VALUES, st.booleans())
def test_strings_are_found_like_a_parser_finds_them(value: object, is_ascii: bool) -> None:
    written = json.dumps(value, ensure_ascii=is_ascii).encode()

    found = [orjson.loads(written[span.start : span.end]) for span in find_strings(written)]

    assert sorted(found) == sorted(strings_of(value))


def strings_of(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for item in value.values() for text in strings_of(item))]
    if isinstance(value, list):
        return [text for item in value for text in strings_of(item)]
    return [value] if isinstance(value, str) else []


@given(VALUES, TEXTS, st.booleans())
def test_a_large_body_is_parsed_like_a_small_one(value: object, text: str, is_ascii: bool) -> None:
    body = {"items": [value, text * 20, {text * 3: [text * 3, 1.5, None, True]}], "rest": " " * MIB}

    assert parse_json(json.dumps(body, ensure_ascii=is_ascii).encode()) == body


@pytest.mark.parametrize(
    "text",
    [
        b'"' * 2 * MIB,
        b'["' + b"a" * MIB,
        b'["' + b"\\" * (MIB + 1) + b'"]',
        b'["' + b"a" * MIB + b'\xff"]',
        b'["' + b"\\u12" * MIB + b'"]',
        b'["' + b"\\ud800" * MIB + b'"]',
        b'["' + b"a" * MIB + b'",]',
        b'["' + b"\n" * MIB + b'"]',
    ],
)
def test_large_malformed_json_is_refused(text: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        parse_json(text)


@pytest.mark.parametrize(
    "text",
    [
        b'["%s"]' % (b'\\"' * 8 * MIB),
        b"[%s0]" % (b'"%s",' % (b'\\"' * 10_000) * 800),
        b"[%s0]" % (b'"%s",' % (b"\\n" * 100) * 80_000),
        ('["%s"]' % ("窗外" * 2 * MIB)).encode(),
        b'["%s"]' % (b"\\u4e2d" * 2 * MIB),
    ],
)
def test_other_threads_run_while_a_large_body_is_parsed(text: bytes) -> None:
    # A collection of garbage would stop both threads. The best of several tries counts: machines have other work.
    gc.disable()
    try:
        longest = min(measure_longest_wait(text) for _ in range(3))
    finally:
        gc.enable()

    assert longest < 0.08


def measure_longest_wait(text: bytes) -> float:
    """Return for how many seconds another thread waited at most while a text was parsed."""
    longest, is_over = 0.0, threading.Event()

    def watch() -> None:
        nonlocal longest
        while not is_over.is_set():
            began, spent = time.perf_counter(), time.process_time()
            time.sleep(0.001)
            # Where other programs had the processor, the process has spent less.
            longest = max(longest, min(time.perf_counter() - began, time.process_time() - spent))

    watcher = threading.Thread(target=watch)
    watcher.start()
    parsed = parse_json(text)
    is_over.set()
    watcher.join()
    assert parsed == orjson.loads(text)
    return longest


def test_a_string_without_an_end_goes_to_the_end_of_the_text() -> None:
    assert list(find_strings(b'{"a":"bc')) == [StringSpan(1, 4), StringSpan(5, 8)]
