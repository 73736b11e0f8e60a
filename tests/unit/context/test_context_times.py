"""Dates in questions and messages: Chinese and English, as dates, holidays, and relative to a day."""

from datetime import UTC, date, datetime

import pytest

from knowhub.context.times import list_day_marks, list_named_times, list_range_marks, parse_time_after
from knowhub.conversations.language.dates import TimeRange

WEDNESDAY = datetime(2023, 5, 10, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2023年5月2号那天", "2023-05-02", "2023-05-02"),
        ("二〇二二年十二月", "2022-12-01", "2022-12-31"),
        ("昨天吃了什么", "2023-05-09", "2023-05-09"),
        ("前天", "2023-05-08", "2023-05-08"),
        ("上周二开会", "2023-05-02", "2023-05-02"),
        ("上个星期五", "2023-05-05", "2023-05-05"),
        ("上周末", "2023-05-06", "2023-05-07"),
        ("这周", "2023-05-08", "2023-05-14"),
        ("去年国庆", "2022-10-01", "2022-10-01"),
        ("去年5月", "2022-05-01", "2022-05-31"),
        ("上个月", "2023-04-01", "2023-04-30"),
        ("三天前", "2023-05-07", "2023-05-07"),
        ("两周前", "2023-04-23", "2023-04-29"),
        ("去年", "2022-01-01", "2022-12-31"),
        ("2023-05-02", "2023-05-02", "2023-05-02"),
        ("on 7 May, 2022", "2022-05-07", "2022-05-07"),
        ("on the 7th of May 2022", "2022-05-07", "2022-05-07"),
        ("May 7th, 2022", "2022-05-07", "2022-05-07"),
        ("in May 2022", "2022-05-01", "2022-05-31"),
        ("yesterday", "2023-05-09", "2023-05-09"),
        ("the day before yesterday", "2023-05-08", "2023-05-08"),
        ("last Tuesday", "2023-05-09", "2023-05-09"),
        ("next Friday", "2023-05-12", "2023-05-12"),
        ("two days ago", "2023-05-08", "2023-05-08"),
        ("a month ago", "2023-04-01", "2023-04-30"),
        ("in 2021", "2021-01-01", "2021-12-31"),
        ("上上个月", "2023-03-01", "2023-03-31"),
        ("上个月15号签了合同", "2023-04-15", "2023-04-15"),
        ("本月三日", "2023-05-03", "2023-05-03"),
        ("去年的今天", "2022-05-10", "2022-05-10"),
        ("前年今日", "2021-05-10", "2021-05-10"),
        ("下下周", "2023-05-22", "2023-05-28"),
        ("下下个月", "2023-07-01", "2023-07-31"),
        ("大后天", "2023-05-13", "2023-05-13"),
        ("昨夜下雨了", "2023-05-09", "2023-05-09"),
        ("this morning", "2023-05-10", "2023-05-10"),
        ("a couple of days ago", "2023-05-08", "2023-05-08"),
        ("1850年3月", "1850-03-01", "1850-03-31"),
        ("31 February, or yesterday", "2023-05-09", "2023-05-09"),
    ],
)
def test_a_named_time_is_read_as_its_days(text: str, first: str, last: str) -> None:
    named = list_named_times(text, WEDNESDAY)

    assert [time for _, time in named] == [TimeRange(date.fromisoformat(first), date.fromisoformat(last))]


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("5月2日", "m0502"),
        ("劳动节", "m0501"),
        ("圣诞节", "m1225"),
        ("十一月", "m11"),
        ("on 7 May", "m0507"),
        ("Christmas Eve", "m1224"),
        ("New Year's Day", "m0101"),
        ("in March", "m03"),
        ("in march", "m03"),
    ],
)
def test_a_day_without_a_year_matches_every_year(text: str, mark: str) -> None:
    marks = [mark for _, time in list_named_times(text, WEDNESDAY) for mark in list_range_marks(time)]

    assert marks == [mark]


@pytest.mark.parametrize(
    "text",
    [
        "I may go",
        "they march on",
        "version 3.2.1",
        "31 February",
        "天气不错",
        "三个月大的猫",
        "",
        "call 555-2023-11",
        "13月",
        "yeſterday, laſt week",
        "上个月31号",
    ],
)
def test_texts_without_a_date_have_no_named_times(text: str) -> None:
    named = list_named_times(text, WEDNESDAY)

    assert named == []


def test_a_message_is_tagged_with_its_day_and_mentioned_days() -> None:
    marks = list_day_marks(WEDNESDAY, [time for _, time in list_named_times("昨天去了西山", WEDNESDAY)])

    assert {"d20230510", "m0510", "d202305", "m05", "y2023", "d20230509", "m0509"} == set(marks)


def test_long_periods_are_searched_by_month_or_year() -> None:
    marks = [
        list_range_marks(time) for text in ("上周", "去年5月", "去年") for _, time in list_named_times(text, WEDNESDAY)
    ]

    assert [len(some) for some in marks] == [7, 1, 1]
    assert marks[1:] == [["d202205"], ["y2022"]]


@pytest.mark.parametrize("moment", [1e18, -1e18, float("inf"), float("nan")])
def test_a_moment_beyond_the_calendar_has_no_day(moment: float) -> None:
    named, marks = list_named_times("yesterday", moment), list_day_marks(moment)

    assert (named, marks) == ([], [])


@pytest.mark.parametrize(
    ("question", "event", "rest", "days"),
    [
        ("What did she sell a week after we met?", "we met", "What did she sell ?", 7),
        ("我们认识两周后小林去了哪里？", "我们认识", "小林去了哪里？", 14),
        ("Who called two days before the party, and why?", "the party", "Who called , and why?", -2),
    ],
)
def test_a_relative_time_names_its_event_and_offset(question: str, event: str, rest: str, days: int) -> None:
    after = parse_time_after(question)

    assert after is not None
    assert (after.event, after.rest, after.days) == (event, rest, days)


def test_weeks_after_an_event_are_approximate_and_days_exact() -> None:
    week, days = parse_time_after("a week after we met"), parse_time_after("two days after we met")

    assert week is not None
    assert days is not None
    around_week, around_days = week.resolve(WEDNESDAY), days.resolve(WEDNESDAY)
    assert around_week is not None
    assert around_days is not None
    assert (around_week.first, around_week.last) == (date(2023, 5, 14), date(2023, 5, 20))
    assert around_days.first == around_days.last == date(2023, 5, 12)


def test_an_unreachable_relative_time_is_none() -> None:
    far = parse_time_after("a week after we met")

    assert far is not None
    assert [far.resolve(moment) for moment in (253_402_300_000.0, 1e18, float("nan"))] == [None, None, None]
    assert parse_time_after("我们认识十十周后去了哪里") is None


@pytest.mark.parametrize(
    ("piece", "days"),
    [
        ("今天", 1),
        ("yesterday ", 1),
        ("2023年5月2日", 1),
        ("5月2日后天", 2),
        ("May 7, ", 1),
        ("a week ago ", 1),
        ("1月1日三周后", 1),
    ],
)
def test_a_long_text_full_of_days_names_each_day_once(piece: str, days: int) -> None:
    text = piece * 100_000

    named = list_named_times(text, WEDNESDAY)

    assert len(named) == days
