"""Merging candidates into stored memories: no fact is lost, and no fact is stored twice."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.context.commit import blocks, policies
from knowhub.context.commit.context_writer import ContextWriter, RelationWriter, list_names, mentions
from knowhub.context.commit.policies import (
    AggregateTopicPolicy,
    AppendOnlyPolicy,
    MergePolicy,
    PolicyRouter,
    ProfilePolicy,
    SkillToolPolicy,
)
from knowhub.context.commit_model import CandidateMemory, WriteAction
from knowhub.context.model import MemoryCategory, RelationEdge
from knowhub.conversations.recalled import normalize_words
from knowhub.core.operation import Row
from tests.builders import CountedIds, FakeClock
from tests.context_commits import whose
from tests.fakes.memory_store import MemoryStore

FIRST_DAY, NEXT_DAY = "2026-05-07T10:00:00Z", "2026-05-08T10:00:00Z"


def candidate(category: MemoryCategory, content: str, key: str = "work", **facts: Any) -> CandidateMemory:  # noqa: ANN401 -- any facts
    owner_scope = (
        "agent"
        if category in (MemoryCategory.CASES, MemoryCategory.PATTERNS, MemoryCategory.SKILLS, MemoryCategory.TOOLS)
        else "user"
    )
    source = str(facts.pop("source", "ctx://default/users/li/sessions/s1/m1"))
    told = {"said_at": FIRST_DAY, **facts}
    return CandidateMemory(category, owner_scope, key, content[:300], content, content, 0.9, [source], facts=told)


class Stand:
    """One account on which plans are carried out, one after the other, without a store."""

    def __init__(self) -> None:
        self.writer = ContextWriter(MemoryStore(FakeClock(), CountedIds()).view("default"))
        self.relations = RelationWriter(self.writer)

    def take(self, one: CandidateMemory) -> tuple[WriteAction, Row]:
        """Plan and carry out; return what was done, and how the row stands."""
        plan = PolicyRouter().build_plan(one, whose(), self.writer.row)
        self.writer.apply_plan(whose(), plan)
        self.relations.apply_edges(whose(), plan.target_uri, plan.relation_ops)
        return plan.action, self.writer.row(plan.target_uri) or {}


def statements(row: Row) -> list[str]:
    return [one.text for one in blocks.blocks(row["content"])]


@pytest.mark.parametrize(
    ("category", "policy", "uri"),
    [
        (MemoryCategory.PROFILE, ProfilePolicy, "ctx://default/users/li/memories/profile"),
        (MemoryCategory.SKILLS, SkillToolPolicy, "ctx://default/agents/helper/skills/绿茶%20%2F%20Tea"),
        (MemoryCategory.TOOLS, SkillToolPolicy, "ctx://default/agents/helper/tools/绿茶%20%2F%20Tea"),
    ],
)
def test_each_category_has_its_policy_and_its_place(
    category: MemoryCategory, policy: type[MergePolicy], uri: str
) -> None:
    one = candidate(category, "Tea is good.", "绿茶 / Tea")

    chosen = PolicyRouter().select_policy(one, whose())

    assert isinstance(chosen, policy)
    assert chosen.target(one, whose()) == uri


@pytest.mark.parametrize("category", [MemoryCategory.PREFERENCES, MemoryCategory.ENTITIES, MemoryCategory.PATTERNS])
def test_what_is_gathered_under_somebodys_words_has_a_place_that_quotes_none_of_them(category: MemoryCategory) -> None:
    places = {
        key: AggregateTopicPolicy().target(candidate(category, "Tea is good.", key), whose())
        for key in ("绿茶 / Tea", "绿茶 tea", "hunter2pass77")
    }

    assert places["绿茶 / Tea"] == places["绿茶 tea"] != places["hunter2pass77"]
    assert all(re.fullmatch(r"[0-9a-f]{12}", place.rpartition("/")[2]) for place in places.values())


def test_of_what_has_one_value_the_newest_statement_is_the_only_one() -> None:
    policy = AggregateTopicPolicy()
    first = candidate(MemoryCategory.PREFERENCES, "Answer in English.", "reply language")
    before = {**policy.plan(first, None, whose()).node_patch}

    newer = candidate(MemoryCategory.PREFERENCES, "Answer in German.", "reply language", is_single=True)
    content = policy.plan(newer, before, whose()).node_patch["content"]

    edited = {**before, "metadata": {**before["metadata"], "by": "person"}}
    kept = policy.plan(newer, edited, whose()).node_patch["content"]

    assert ("German" in content, "English" in content) == (True, False)
    assert ("German" in kept, "English" in kept) == (True, True)


def test_what_an_agent_keeps_names_no_session_to_those_whom_it_serves_and_what_a_user_keeps_does() -> None:
    texts = [
        Stand().take(candidate(category, "Retry once.", "retries"))[1]["content"]
        for category in (MemoryCategory.PATTERNS, MemoryCategory.PREFERENCES)
    ]

    assert texts == [
        "# retries\n- Retry once. (2026-05-07)",
        "# retries\n- Retry once. (2026-05-07, session s1)",
    ]


@pytest.mark.parametrize("category", [MemoryCategory.EVENTS, MemoryCategory.CASES])
def test_an_event_and_a_case_are_named_by_their_day_and_by_what_they_are_about(category: MemoryCategory) -> None:
    one = candidate(category, "I moved.", "i moved", date="2026-05-01")

    target = AppendOnlyPolicy().target(one, whose())

    assert target.rpartition("/")[2].startswith("2026-05-01-")
    assert target == AppendOnlyPolicy().target(
        candidate(category, "I moved, at last!", "I moved.", date="2026-05-01"), whose()
    )


def test_a_profile_has_a_section_for_each_topic() -> None:
    stand = Stand()

    stand.take(candidate(MemoryCategory.PROFILE, "I'm Ana.", topic="identity"))
    stand.take(candidate(MemoryCategory.PROFILE, "I work as a nurse.", topic="work"))
    action, row = stand.take(
        candidate(MemoryCategory.PROFILE, "I am 34 years old.", topic="identity", said_at=NEXT_DAY)
    )

    assert action is WriteAction.MERGE
    assert row["content"] == (
        "## identity\n- I'm Ana. (2026-05-07, session s1)\n- I am 34 years old. (2026-05-08, session s1)\n\n"
        "## work\n- I work as a nurse. (2026-05-07, session s1)"
    )


def test_of_what_a_person_has_but_one_the_newer_statement_stands() -> None:
    stand = Stand()
    stand.take(candidate(MemoryCategory.PROFILE, "I'm Ana.", topic="identity"))
    stand.take(candidate(MemoryCategory.PROFILE, "I live in Rome.", topic="home", values={"home": "rome"}))

    plan = PolicyRouter().build_plan(
        candidate(MemoryCategory.PROFILE, "I live in Oslo.", topic="home", values={"home": "oslo"}, said_at=NEXT_DAY),
        whose(),
        stand.writer.row,
    )
    stand.writer.apply_plan(whose(), plan)

    row = stand.writer.row(plan.target_uri) or {}
    assert statements(row) == ["I'm Ana.", "I live in Oslo."]
    assert "said anew" in plan.reason
    assert "Rome" not in plan.reason


def test_an_older_statement_that_comes_late_replaces_nothing() -> None:
    stand = Stand()
    stand.take(
        candidate(MemoryCategory.PROFILE, "I live in Oslo.", topic="home", values={"home": "oslo"}, said_at=NEXT_DAY)
    )

    action, row = stand.take(
        candidate(MemoryCategory.PROFILE, "I live in Rome.", topic="home", values={"home": "rome"})
    )

    assert action is WriteAction.SKIP
    assert statements(row) == ["I live in Oslo."]


@given(
    st.lists(
        st.tuples(st.sampled_from(["work", "home", "team"]), st.text("abcde XYZ", min_size=1, max_size=12)), max_size=12
    )
)
def test_a_profile_loses_no_statement_that_nothing_contradicts(said: Sequence[tuple[str, str]]) -> None:
    stand = Stand()
    spoken = [(topic, text) for topic, text in said if any(char.isalnum() for char in text)]

    rows = [stand.take(candidate(MemoryCategory.PROFILE, text, topic=topic))[1] for topic, text in spoken]

    assert all(blocks.contains_text(rows[-1]["content"], text) for _, text in spoken)


def test_what_a_person_wrote_into_a_profile_stays_where_it_is() -> None:
    stand = Stand()
    _, row = stand.take(candidate(MemoryCategory.PROFILE, "I work as a nurse.", topic="work"))
    edited = "My notes\n\n" + row["content"] + "\n\nThe end."
    stand.writer.merge_node(whose(), row["id"], {"content": edited})

    _, after = stand.take(candidate(MemoryCategory.PROFILE, "I lead a ward.", topic="work"))

    assert after["content"].startswith("My notes\n\n## work\n- I work as a nurse.")
    assert "The end." in after["content"]
    assert statements(after) == ["I work as a nurse.", "I lead a ward."]


def test_a_topic_takes_each_statement_once_and_further_sources_of_it() -> None:
    stand = Stand()
    stand.take(candidate(MemoryCategory.PREFERENCES, "I love oolong.", "tea"))

    action, row = stand.take(
        candidate(
            MemoryCategory.PREFERENCES, "I really love oolong!", "tea", source="ctx://default/users/li/sessions/s1/m2"
        )
    )

    assert action is WriteAction.MERGE
    assert statements(row) == ["I love oolong."]
    assert row["metadata"]["source_refs"] == [f"ctx://default/users/li/sessions/s1/m{n}" for n in (1, 2)]


def test_the_same_from_the_same_message_is_skipped() -> None:
    stand = Stand()
    stand.take(candidate(MemoryCategory.PREFERENCES, "I love oolong.", "tea"))

    action, _ = stand.take(candidate(MemoryCategory.PREFERENCES, "I love oolong.", "tea"))

    assert action is WriteAction.SKIP


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like coffee.", "I don't like coffee."),
        ("我喜欢咖啡。", "我不喜欢咖啡。"),
        ("Wake me at 6.", "Wake me at 7."),
    ],
)
def test_statements_that_only_look_alike_are_both_kept_and_the_newest_is_shown_first(one: str, other: str) -> None:
    stand = Stand()
    stand.take(candidate(MemoryCategory.PREFERENCES, one, "x"))

    _, row = stand.take(candidate(MemoryCategory.PREFERENCES, other, "x", said_at=NEXT_DAY))

    assert statements(row) == [one, other]
    assert row["abstract"] == f"{other} {one}"


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text(min_size=1, max_size=30)), max_size=10))
def test_nothing_that_an_event_says_is_ever_written_over(said: Sequence[tuple[str, str]]) -> None:
    stand = Stand()
    before: dict[str, tuple[str, str]] = {}

    for key, text in said:
        _, row = stand.take(candidate(MemoryCategory.EVENTS, text, f"event {key}"))

        old = before.get(key)
        assert old is None or (row["content"].startswith(old[0]) and row["abstract"] == old[1])
        assert text in row["content"] or any(
            normalize_words(text) == normalize_words(part) for part in row["content"].split("\n\n---\n")
        )
        before[key] = (row["content"], row["abstract"])


def test_an_event_that_is_told_again_with_more_gets_a_section_and_the_same_is_skipped() -> None:
    stand = Stand()
    stand.take(candidate(MemoryCategory.CASES, "Problem: no disk\nDeleted logs.", "no disk"))

    appended, row = stand.take(candidate(MemoryCategory.CASES, "Problem: no disk\nMounted a volume.", "no disk"))
    skipped, _ = stand.take(candidate(MemoryCategory.CASES, "Problem: no disk\nDeleted logs!", "no disk"))

    assert (appended, skipped) == (WriteAction.APPEND, WriteAction.SKIP)
    assert row["content"] == "Problem: no disk\nDeleted logs.\n\n---\nProblem: no disk\nMounted a volume."


def test_a_section_is_all_that_appending_writes() -> None:
    stand = Stand()
    _, row = stand.take(candidate(MemoryCategory.EVENTS, "I moved.", "i moved"))

    stand.writer.append_node(whose(), row["id"], {"abstract": "x", "overview": "y", "content": " And more."})

    after = stand.writer.row(row["id"]) or {}
    assert (after["abstract"], after["overview"], after["content"]) == ("I moved.", "I moved.", "I moved. And more.")


def uses(*calls: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"id": f"call:{n}", "ok": True, "seconds": None, "note": "", **call} for n, call in enumerate(calls)]


def test_statistics_add_up_and_the_text_is_made_of_them() -> None:
    stand = Stand()
    stand.take(
        candidate(MemoryCategory.TOOLS, "x", "grep", uses=uses({"seconds": 1.0}, {"ok": False, "note": "no such file"}))
    )

    _, row = stand.take(candidate(MemoryCategory.TOOLS, "x", "grep", uses=uses({"seconds": 2.0, "at": NEXT_DAY})))

    assert row["metadata"]["stats"] == {
        "calls": 3,
        "success": 2,
        "failure": 1,
        "last_used": NEXT_DAY,
        "total_seconds": 3.0,
    }
    assert row["abstract"] == ("Tool grep: 3 calls, 2 succeeded, 1 failed, 3.00 s in all; last used 2026-05-08.")
    assert row["content"] == f"{row['abstract']}\n\n- failed: no such file"


def test_what_a_person_wrote_about_a_tool_stays() -> None:
    stand = Stand()
    _, row = stand.take(candidate(MemoryCategory.TOOLS, "x", "grep", uses=uses({})))
    stand.writer.merge_node(whose(), row["id"], {"content": row["content"] + "\n\nPrefer rg."})

    _, after = stand.take(candidate(MemoryCategory.TOOLS, "x", "grep", uses=uses({})))

    assert after["content"] == f"{after['abstract']}\n\nPrefer rg."


def test_a_tool_whose_calls_were_all_counted_is_skipped() -> None:
    action, _ = Stand().take(candidate(MemoryCategory.TOOLS, "x", "grep", uses=[]))

    assert action is WriteAction.SKIP


@pytest.mark.parametrize("category", [one for one in MemoryCategory if one is not MemoryCategory.SESSIONS])
def test_what_was_erased_does_not_come_back(category: MemoryCategory) -> None:
    one = candidate(category, "I moved.", "i moved", uses=uses({}))

    plan = PolicyRouter().build_plan(one, whose(), lambda _uri: {"erased": True, "deleted": True, "version": 3})

    assert plan.action is WriteAction.SKIP
    assert "erased" in plan.reason


def test_a_memory_that_is_full_takes_no_more_and_says_so() -> None:
    stand = Stand()
    _, row = stand.take(candidate(MemoryCategory.PREFERENCES, "I love oolong.", "tea"))
    stand.writer.merge_node(whose(), row["id"], {"content": "x" * policies.MAX_CONTENT})

    plan = PolicyRouter().build_plan(
        candidate(MemoryCategory.PREFERENCES, "I love sencha.", "tea"), whose(), stand.writer.row
    )

    assert plan.action is WriteAction.SKIP
    assert "full" in plan.reason


def test_an_edge_that_is_there_stays_one() -> None:
    stand = Stand()
    _, row = stand.take(candidate(MemoryCategory.ENTITIES, "Anna is my sister.", "Anna"))
    edge = RelationEdge(row["id"], "ctx://default/users/li/memories/entities/bob", "mentions", "", 0.5)

    for weight in (0.5, 0.7):
        again = RelationEdge(edge.from_uri, edge.to_uri, edge.relation_type, edge.reason, weight)
        stand.relations.apply_edges(whose(), row["id"], [again])

    edges = (stand.writer.row(row["id"]) or {})["relations"]
    assert [(one["relation_type"], one["weight"]) for one in edges] == [("extracted_from", 0.9), ("mentions", 0.7)]


@pytest.mark.parametrize(
    ("text", "name", "is_named"),
    [
        ("I met Anna yesterday.", "Anna", True),
        ("We like bananas.", "Anna", False),
        ("Project Apollo 11 is done.", "apollo-11", True),
        ("我昨天带咪咪去看医生。", "咪咪", True),
        ("A b c", "a", False),
    ],
)
def test_a_memory_names_what_stands_in_it_as_a_word(text: str, name: str, is_named: bool) -> None:
    found = mentions("ctx://default/users/li/memories/events/e", text, list_names([("ctx://default/x", name)]))

    assert bool(found) is is_named


@given(st.text(max_size=200), st.text(min_size=1, max_size=50).filter(str.strip), st.sampled_from(["s1", "a b", "😀"]))
def test_a_block_that_was_added_reads_as_it_was_said(content: str, text: str, session: str) -> None:
    said = " ".join(text.split())

    after = blocks.add_block(content, blocks.block(said, "2026-05-07", session))

    assert blocks.blocks(after)[-1].text == said
    assert after.startswith(content.rstrip())
