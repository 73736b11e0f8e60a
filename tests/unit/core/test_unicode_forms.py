"""Normal forms are those of Unicode, and take linear time on any run of combining marks."""

import sys
import time
import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.core.unicode_forms import MAX_MARKS, normalize

Form = Literal["NFC", "NFD", "NFKC"]
FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC")
# Characters that NFKC turns into a mark, or into several marks.
MARKS = [
    char
    for char in map(chr, range(sys.maxunicode + 1))
    if unicodedata.combining(unicodedata.normalize("NFKD", char)[0])  # noqa: TID251 -- what it is held against
]


@pytest.mark.parametrize("form", FORMS)
@given(text=st.text(max_size=30))
def test_a_text_with_few_marks_is_normalized_as_unicode_says(form: Form, text: str) -> None:
    assert normalize(form, text) == unicodedata.normalize(form, text)  # noqa: TID251 -- what it is held against


@pytest.mark.parametrize("form", FORMS)
def test_thirty_marks_stay_and_the_others_are_dropped(form: Form) -> None:
    most = "q" + "\u0316" * MAX_MARKS

    assert normalize(form, most) == most
    assert normalize(form, f"{most}\u0300\u0316!{most}") == f"{most}!{most}"
    assert normalize(form, "—" * 100) == "—" * 100


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_mark_takes_linear_time(form: Form) -> None:
    # A mark of every class that there is, with runs of others before it.
    classes = {unicodedata.combining(char): char for char in MARKS}
    every = "".join(classes[number] for number in sorted(classes, reverse=True))
    others = ("\u0f73", "\u0f75", "\u0f81", "\u0344", "\uff9e", "\uff9f")
    texts = ["q" + ("\u0301" * 29 + mark) * 1_000 for mark in (*classes.values(), *others)]
    texts += [every * 500, "q" + "\u0300" * 16_000 + "\u0316" * 16_000]

    for text in texts:
        begun = time.process_time()
        normalize(form, text)
        assert time.process_time() - begun < 0.2, text[:40]
