"""Which keywords were matched last, and for whom."""

from hypothesis import given
from hypothesis import strategies as st

from knowhub.keywords.cache import RecentMatches, RecentMatchesByReader
from tests.builders import caller, local

IDS = st.sampled_from("abcdef")


def test_a_path_is_added_with_the_match_first() -> None:
    recent = RecentMatches()

    recent.add_path(["tech", "languages", "python"])

    assert recent.list_newest() == ["python", "languages", "tech"]


@given(st.lists(st.tuples(st.booleans(), IDS)), st.integers(1, 4))
def test_recent_matches_equal_a_plain_list(steps: list[tuple[bool, str]], capacity: int) -> None:
    recent = RecentMatches(capacity)
    expected: list[str] = []

    for is_touch, keyword_id in steps:
        expected = [other for other in expected if other != keyword_id]
        if is_touch:
            recent.add(keyword_id)
            expected = [keyword_id, *expected][:capacity]
        else:
            recent.remove(keyword_id)

    assert recent.list_newest() == expected


def test_recent_matches_are_kept_per_reader() -> None:
    recents = RecentMatchesByReader()

    recents.get_for(caller(user_id="li")).add("secret")

    assert recents.get_for(caller(user_id="li")).list_newest() == ["secret"]
    assert recents.get_for(caller(user_id="wang")).list_newest() == []
    assert recents.get_for(local()).list_newest() == []


def test_the_least_recent_reader_is_dropped_over_the_limit() -> None:
    recents = RecentMatchesByReader(readers=2)
    for user in ("li", "wang"):
        recents.get_for(caller(user_id=user)).add("k")
    recents.get_for(caller(user_id="li"))

    recents.get_for(caller(user_id="zhao"))

    assert recents.get_for(caller(user_id="li")).list_newest() == ["k"]
    assert recents.get_for(caller(user_id="wang")).list_newest() == []


def test_a_deleted_keyword_is_dropped_for_all_readers_of_its_account() -> None:
    recents = RecentMatchesByReader()
    for ctx in (local(), caller(user_id="li")):
        recents.get_for(ctx).add_path(["a", "b"])

    recents.remove("default", "a")
    recents.remove("another", "b")

    assert recents.get_for(local()).list_newest() == ["b"]
    assert recents.get_for(caller(user_id="li")).list_newest() == ["b"]
