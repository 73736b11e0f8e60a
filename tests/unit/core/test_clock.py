"""Times as they are sent and answered: any ISO 8601 form comes in, one goes out."""

import pytest

from knowhub.core.clock import normalize_iso, parse_iso


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-02", 86_400.0), ("1970-01-01T00:00:01Z", 1.0), ("1970-01-01T08:00:00.5+08:00", 0.5)],
)
def test_a_time_without_a_zone_is_utc_and_a_date_is_midnight(text: str, seconds: float) -> None:
    assert parse_iso(text) == seconds


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("2026-03-03", "2026-03-03T00:00:00Z"),
        ("2026-03-03T08:00:00+08:00", "2026-03-03T00:00:00Z"),
        ("2026-03-03T00:00:00.123456Z", "2026-03-03T00:00:00.123Z"),
    ],
)
def test_every_format_is_normalised(text: str, normal: str) -> None:
    assert normalize_iso(text) == normal


def test_text_that_is_not_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match="tomorrow"):
        normalize_iso("tomorrow")


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-10:00"])
def test_a_time_that_is_in_no_year_of_utc_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="outside the years"):
        normalize_iso(text)
    with pytest.raises(ValueError, match="outside the years"):
        parse_iso(text)
