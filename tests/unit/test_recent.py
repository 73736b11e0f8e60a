"""Which keywords were matched last, and for whom."""

from hypothesis import given
from hypothesis import strategies as st

from knowhub.keywords.recent import Recent, Recents
from tests.builders import caller, local

IDS = st.sampled_from("abcdef")


def test_what_was_touched_last_comes_first() -> None:
    recent = Recent()

    for keyword_id in ("a", "b", "a"):
        recent.touch(keyword_id)

    assert recent.snapshot() == ["a", "b"]


def test_over_capacity_the_oldest_goes() -> None:
    recent = Recent(capacity=2)

    for keyword_id in ("a", "b", "c"):
        recent.touch(keyword_id)

    assert recent.snapshot() == ["c", "b"]


def test_a_path_is_touched_so_that_the_match_ends_at_the_head() -> None:
    recent = Recent()

    recent.touch_path(["tech", "languages", "python"])

    assert recent.snapshot() == ["python", "languages", "tech"]


def test_what_is_removed_is_gone_and_removing_it_again_does_nothing() -> None:
    recent = Recent()
    recent.touch_path(["a", "b"])

    recent.remove("a")
    recent.remove("a")

    assert recent.snapshot() == ["b"]


@given(st.lists(st.tuples(st.booleans(), IDS)), st.integers(1, 4))
def test_it_holds_what_a_plain_list_would(steps: list[tuple[bool, str]], capacity: int) -> None:
    recent = Recent(capacity)
    expected: list[str] = []

    for is_touch, keyword_id in steps:
        expected = [other for other in expected if other != keyword_id]
        if is_touch:
            recent.touch(keyword_id)
            expected = [keyword_id, *expected][:capacity]
        else:
            recent.remove(keyword_id)

    assert recent.snapshot() == expected


def test_what_one_reader_matched_comes_first_for_nobody_else() -> None:
    recents = Recents()

    recents.of(caller(user_id="li")).touch("secret")

    assert recents.of(caller(user_id="li")).snapshot() == ["secret"]
    assert recents.of(caller(user_id="wang")).snapshot() == []
    assert recents.of(local()).snapshot() == []


def test_of_too_many_readers_the_one_who_has_not_read_longest_is_forgotten() -> None:
    recents = Recents(readers=2)
    for user in ("li", "wang"):
        recents.of(caller(user_id=user)).touch("k")
    recents.of(caller(user_id="li"))

    recents.of(caller(user_id="zhao"))

    assert recents.of(caller(user_id="li")).snapshot() == ["k"]
    assert recents.of(caller(user_id="wang")).snapshot() == []


def test_a_keyword_that_is_gone_is_forgotten_for_everybody_of_its_account() -> None:
    recents = Recents()
    for ctx in (local(), caller(user_id="li")):
        recents.of(ctx).touch_path(["a", "b"])

    recents.forget("default", "a")
    recents.forget("another", "b")

    assert recents.of(local()).snapshot() == ["b"]
    assert recents.of(caller(user_id="li")).snapshot() == ["b"]


def test_its_capacity_is_that_of_each_reader() -> None:
    recents = Recents(capacity=1)

    recents.of(local()).touch_path(["a", "b"])

    assert recents.of(local()).snapshot() == ["b"]
