"""Which keywords were matched last, and for whom."""

from hypothesis import given
from hypothesis import strategies as st

from knowhub.keywords.cache import RecentMatchesByReader
from tests.builders import caller, local

IDS = st.sampled_from("abcdef")
LI, WANG = caller(user_id="li"), caller(user_id="wang")


@given(st.lists(st.tuples(st.booleans(), IDS)), st.integers(1, 4))
def test_recent_matches_equal_a_plain_list(steps: list[tuple[bool, str]], capacity: int) -> None:
    recents = RecentMatchesByReader(capacity)
    expected: list[str] = []

    for is_match, keyword_id in steps:
        expected = [other for other in expected if other != keyword_id]
        if is_match:
            recents.add(local(), [keyword_id])
            expected = [keyword_id, *expected][:capacity]
        else:
            recents.remove("another", "a")
            recents.remove("default", keyword_id)

    assert recents.list_newest(local()) == expected


def test_matches_are_kept_for_each_of_the_last_readers() -> None:
    recents = RecentMatchesByReader(readers=2)
    for ctx in (LI, WANG):
        recents.add(ctx, ["tech", ctx.actor])
    assert recents.list_newest(LI) == [LI.actor, "tech"]

    assert recents.list_newest(local()) == []

    assert (recents.list_newest(LI), recents.list_newest(WANG)) == ([LI.actor, "tech"], [])
