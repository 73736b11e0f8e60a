"""Spaces of callers, texts of messages, and index events of layered memories."""

from typing import Any

import pytest

from knowhub.context import events, queries, texts, uri
from knowhub.context.events import EventType
from knowhub.context.model import NODES, PARTS
from knowhub.core.operation import Change
from tests.builders import START, caller
from tests.context_rows import node_row, part_row

PROFILE = "ctx://default/users/li/memories/profile"
SESSION = "ctx://default/users/li/sessions/monday"


def li_row(**fields: object) -> dict[str, Any]:
    return node_row(PROFILE, **fields)


def make_part(content: str = "I moved to Hangzhou", **fields: object) -> dict[str, Any]:
    said = {"name": "Li", "message_id": "m1", "timestamp": "2026-03-05T12:00:00Z"}
    return part_row(SESSION, 4, content) | said | {"id": f"{SESSION}/m1"} | fields


@pytest.mark.parametrize(
    ("ids", "user", "agent", "owner"),
    [
        ({"user_id": "li", "agent_id": "web"}, "li", "~li", "user:li"),
        ({"user_id": "li"}, "li", "~li", "user:li"),
        ({"agent_id": "web"}, "~web", "web", "agent:web"),
        ({"user_id": "李 四", "team_id": "red"}, "李%20四", "~李%20四", "user:李 四"),
    ],
)
def test_each_caller_has_their_own_spaces(ids: dict[str, str], user: str, agent: str, owner: str) -> None:
    whose = uri.memory_context(caller(**ids), "monday")

    assert (whose.user, whose.agent, whose.owner) == (user, agent, owner)


def test_a_user_and_an_agent_with_one_name_share_no_space() -> None:
    user, agent = uri.memory_context(caller(user_id="x")), uri.memory_context(caller(agent_id="x"))

    assert user.user != agent.user
    assert user.agent != agent.agent
    assert set(uri.list_visible_spaces(caller(user_id="x")) or ()).isdisjoint(
        uri.list_visible_spaces(caller(agent_id="x")) or ()
    )


def test_an_unreadable_timestamp_is_not_searched() -> None:
    assert queries.summarize_row(PARTS, make_part(timestamp="last Tuesday"), 0, 7).occurred_at is None
    assert queries.summarize_row(PARTS, make_part(timestamp=None), 0, 7).occurred_at is None


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [("Li", "hello", "Li: hello"), ("Li", "Li: hello", "Li: hello"), ("", "hello", "hello")],
)
def test_a_message_is_shown_with_its_speaker_once(name: str, content: str, expected: str) -> None:
    assert texts.format_message(make_part(name=name, content=content)) == expected


def test_each_written_row_makes_one_index_event() -> None:
    edge = {"to_uri": SESSION, "relation_type": "extracted_from", "reason": "", "weight": 1.0}
    made = Change(NODES, PROFILE, None, li_row(relations=[edge]))
    gone = Change(PARTS, f"{SESSION}/m1", make_part(), make_part(deleted=True))
    other = Change("knowledge", "k", None, {"id": "k"})

    asked = events.list_events("default", 1, START, [made, gone, other])

    assert [(item.event_type, item.uri) for item in asked] == [
        (EventType.UPSERT_CONTEXT, PROFILE),
        (EventType.UPSERT_RELATION, PROFILE),
        (EventType.DELETE_CONTEXT, f"{SESSION}/m1"),
    ]
    assert {item.created_at for item in asked} == {START}
    assert len({item.event_id for item in asked}) == len(asked)


def test_a_move_is_one_event_and_a_repeated_deletion_none() -> None:
    old = "ctx://default/users/old/memories/profile"
    moved = Change(NODES, PROFILE, None, li_row(moved_from=old))
    gone = Change(NODES, old, li_row(id=old), li_row(id=old, deleted=True))
    twice = Change(NODES, PROFILE, li_row(deleted=True), li_row(deleted=True, version=3))

    asked = events.list_events("default", 1, START, [moved, gone, twice])

    assert [(item.event_type, item.uri, item.payload.get("from_uri")) for item in asked] == [
        (EventType.MOVE_CONTEXT, PROFILE, old),
        (EventType.DELETE_CONTEXT, old, None),
    ]
