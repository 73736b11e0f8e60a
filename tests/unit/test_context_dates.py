"""When something took place, by the words for it and the day on which they were said."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.context.extraction import wording

SAID = date(2026, 5, 8)  # a Friday


@pytest.mark.parametrize(
    ("said", "day", "grain"),
    [
        ("i moved yesterday", "2026-05-07", "day"),
        ("last night we ate out", "2026-05-07", "day"),
        ("we met on 7 may", "2026-05-07", "day"),
        ("we met on may 9th", "2025-05-09", "day"),
        ("on 3rd of march, 2021", "2021-03-03", "day"),
        ("it was 2024-02-29", "2024-02-29", "day"),
        ("in march", "2026-03-01", "month"),
        ("in june", "2025-06-01", "month"),
        ("in 2019 i quit", "2019-01-01", "year"),
        ("last week", "2026-04-27", "week"),
        ("last weekend", "2026-05-02", "day"),
        ("last friday", "2026-05-01", "day"),
        ("on sunday", "2026-05-03", "day"),
        ("last month", "2026-04-01", "month"),
        ("last year", "2025-01-01", "year"),
        ("three days ago", "2026-05-05", "day"),
        ("2 weeks ago", "2026-04-24", "week"),
        ("a month ago", "2026-04-01", "month"),
        ("two years ago", "2024-01-01", "year"),
        ("我昨天到的", "2026-05-07", "day"),
        ("大前天", "2026-05-05", "day"),
        ("5月2日", "2026-05-02", "day"),
        ("12月31号", "2025-12-31", "day"),
        ("2024年3月", "2024-03-01", "month"),
        ("2020年", "2020-01-01", "year"),
        ("上周", "2026-04-27", "week"),
        ("上周三", "2026-04-29", "day"),
        ("上个月", "2026-04-01", "month"),
        ("去年", "2025-01-01", "year"),
        ("三天前", "2026-05-05", "day"),
        ("两个月前", "2026-03-01", "month"),
        ("a couple of days ago", "2026-05-06", "day"),
        ("this past weekend", "2026-05-02", "day"),
        ("this monday", "2026-05-04", "day"),
        ("this past month", "2026-04-01", "month"),
        ("tomorrow i'll tell what we did on 7 may", "2026-05-07", "day"),
        ("去年5月", "2025-05-01", "month"),
        ("上上个月", "2026-03-01", "month"),
        ("十二天前", "2026-04-26", "day"),
        ("1850年3月", "1850-03-01", "month"),
        ("2月29日", "2024-02-29", "day"),
    ],
)
def test_a_time_is_reckoned_from_the_day_on_which_it_was_named(said: str, day: str, grain: str) -> None:
    found = wording.find_time(said, SAID)

    assert found is not None
    assert (found.iso, found.grain) == (day, grain)


@pytest.mark.parametrize(
    "said",
    [
        "i like tea",
        "may i ask?",
        "march on",
        "我喜欢茶",
        "no second thoughts",
        "version 2.10",
        "we leave tomorrow",
        "下周三去",
        "a christmas tree",
        "it cost 2000 dollars",
    ],
)
def test_what_names_no_time_has_none(said: str) -> None:
    found = wording.find_time(said, SAID)

    assert found is None


@pytest.mark.parametrize("said", ["yesterday", "on 7 may", "上周", "on sunday", "31 february 2020", "13月40日"])
def test_a_time_of_which_nobody_can_tell_the_day_keeps_its_words(said: str) -> None:
    found = wording.find_time(said, None)

    assert found is not None
    assert (found.day, bool(found.words)) == (None, True)


@given(st.text(max_size=60), st.dates())
def test_no_sentence_breaks_it(said: str, day: date) -> None:
    found = wording.find_time(said, day)

    assert found is None or found.words


@pytest.mark.parametrize(
    ("timestamp", "moment"),
    [
        ("2026-05-08", "2026-05-08T00:00:00Z"),
        ("2026-05-08T10:00:00+02:00", "2026-05-08T08:00:00Z"),
        ("0001-01-01T00:00:00+05:00", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_a_timestamp_is_a_moment_where_it_is_iso(timestamp: str | None, moment: str | None) -> None:
    assert wording.moment_of(timestamp) == moment
