"""URIs of memories: each name has one segment, each place one URI, and whatever is written otherwise is refused."""

from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from knowhub.context import uri
from knowhub.context.model import MemoryCategory
from knowhub.core.errors import InvalidInput

LI = "users/li"
WEB = "agents/web"
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("space", "category", "name", "expected"),
    [
        (LI, MemoryCategory.PROFILE, "", "ctx://acme/users/li/memories/profile"),
        (LI, MemoryCategory.PREFERENCES, "style", "ctx://acme/users/li/memories/preferences/style"),
        (LI, MemoryCategory.ENTITIES, "咪咪", "ctx://acme/users/li/memories/entities/咪咪"),
        (LI, MemoryCategory.EVENTS, "2026-05-02-a", "ctx://acme/users/li/memories/events/2026-05-02-a"),
        (LI, MemoryCategory.SESSIONS, "s/1", "ctx://acme/users/li/sessions/s%2F1"),
        (WEB, MemoryCategory.CASES, "c1", "ctx://acme/agents/web/memories/cases/c1"),
        (WEB, MemoryCategory.PATTERNS, "retry", "ctx://acme/agents/web/memories/patterns/retry"),
        (WEB, MemoryCategory.SKILLS, "login", "ctx://acme/agents/web/skills/login"),
        (WEB, MemoryCategory.TOOLS, "curl", "ctx://acme/agents/web/tools/curl"),
    ],
)
def test_every_category_has_a_uri(space: str, category: MemoryCategory, name: str, expected: str) -> None:
    made = uri.node_uri("acme", space, category, name)
    read = uri.parse(made)

    assert made == expected
    assert (read.account, read.space, read.category, read.name) == ("acme", space, category, name)
    assert read.is_node


def test_a_message_uri_is_below_its_session() -> None:
    session = uri.node_uri("acme", LI, MemoryCategory.SESSIONS, "monday")

    read = uri.parse(uri.part_uri(session, "D1:3"))

    assert (read.name, read.part, read.parent) == ("monday", "D1:3", session)
    assert read.is_part
    assert not read.is_node


@given(NAMES)
@example("..")
@example("~")
@example("%2e")
@example("a/../b")
@example("．．")
@example("\x00")
@example("\u202egpj")
def test_a_name_is_decoded_from_its_segment(name: str) -> None:
    made = uri.node_uri("acme", LI, MemoryCategory.ENTITIES, name)

    read = uri.parse(made)

    assert read.name == name
    assert made.count("/") == "ctx://acme/users/li/memories/entities/x".count("/")
    assert read.space == LI


@given(NAMES, NAMES)
def test_two_names_never_share_a_uri(first: str, other: str) -> None:
    uris = {uri.node_uri("acme", LI, MemoryCategory.ENTITIES, name) for name in (first, other)}

    assert len(uris) == len({first, other})


@pytest.mark.parametrize("text", ["ctx://", "ctx://acme/", "ctx:///users/li", "ctx://acme/users/li//sessions/s"])
def test_an_empty_name_is_refused_as_such(text: str) -> None:
    with pytest.raises(InvalidInput, match="has an empty name in it: no slash ends a URI, and none stands twice"):
        uri.parse(text)


@given(NAMES)
def test_foreign_percent_encoding_is_read_only_if_canonical(name: str) -> None:
    assume(not name.startswith(uri.OWN))
    theirs = quote(name, safe="")

    try:
        read = uri.parse(f"ctx://acme/users/{theirs}/memories/profile")
    except InvalidInput:
        assert theirs != uri.encode_segment(name)
    else:
        assert read.space == f"users/{uri.encode_segment(name)}"


def test_a_users_own_agent_space_differs_from_every_agents_space() -> None:
    own = f"agents/{uri.make_own_segment('li')}"

    read = uri.parse(uri.node_uri("acme", own, MemoryCategory.TOOLS, "curl"))

    assert read.space == own
    assert uri.encode_segment("~li") != uri.make_own_segment("li")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Reply in Chinese!", "reply-in-chinese"),
        ("  回答 用中文！ ", "回答-用中文"),
        ("Ｆｕｌｌ Ｗｉｄｔｈ", "full-width"),
        ("C++ / C#", "c-c"),
    ],
)
def test_a_slug_is_readable(text: str, expected: str) -> None:
    assert uri.make_slug(text) == expected


@given(st.text(max_size=300))
def test_every_slug_is_a_valid_segment(text: str) -> None:
    made = uri.make_slug(text)

    assert 0 < len(made) <= uri.MAX_SLUG_CHARS
    assert uri.parse(uri.node_uri("acme", LI, MemoryCategory.ENTITIES, made)).name == made


def test_slugs_of_texts_that_differ_in_the_cut_part_differ() -> None:
    long = "word " * 40

    assert uri.make_slug(long + "one") != uri.make_slug(long + "two")
    assert uri.make_slug("!!!") != uri.make_slug("???")


def test_a_stable_hash_is_the_same_in_every_process() -> None:
    assert uri.stable_hash("ctx://acme/users/li/memories/profile", 0) == "22d63264623a95ef7e06b5cc49748219"
