"""Which keywords were matched last, and for whom."""

from hypothesis import given
from hypothesis import strategies as st

from knowhub.keywords.cache import RecentMatches, RecentMatchesByReader
from tests.builders import caller, local

IDS = st.sampled_from("abcdef")


def test_a_path_is_touched_so_that_the_match_ends_at_the_head() -> None:
    recent = RecentMatches()

    recent.add_path(["tech", "languages", "python"])

    assert recent.list_newest() == ["python", "languages", "tech"]


@given(st.lists(st.tuples(st.booleans(), IDS)), st.integers(1, 4))
def test_it_holds_what_a_plain_list_would(steps: list[tuple[bool, str]], capacity: int) -> None:
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


def test_what_one_reader_matched_comes_first_for_nobody_else() -> None:
    recents = RecentMatchesByReader()

    recents.get_for(caller(user_id="li")).add("secret")

    assert recents.get_for(caller(user_id="li")).list_newest() == ["secret"]
    assert recents.get_for(caller(user_id="wang")).list_newest() == []
    assert recents.get_for(local()).list_newest() == []


def test_of_too_many_readers_the_one_who_has_not_read_longest_is_forgotten() -> None:
    recents = RecentMatchesByReader(readers=2)
    for user in ("li", "wang"):
        recents.get_for(caller(user_id=user)).add("k")
    recents.get_for(caller(user_id="li"))

    recents.get_for(caller(user_id="zhao"))

    assert recents.get_for(caller(user_id="li")).list_newest() == ["k"]
    assert recents.get_for(caller(user_id="wang")).list_newest() == []


def test_a_keyword_that_is_gone_is_forgotten_for_everybody_of_its_account() -> None:
    recents = RecentMatchesByReader()
    for ctx in (local(), caller(user_id="li")):
        recents.get_for(ctx).add_path(["a", "b"])

    recents.remove("default", "a")
    recents.remove("another", "b")

    assert recents.get_for(local()).list_newest() == ["b"]
    assert recents.get_for(caller(user_id="li")).list_newest() == ["b"]
