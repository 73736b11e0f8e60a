"""Merging candidates into stored memories: no fact is lost, and no fact is stored twice."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.context.commit.context_writer import ContextWriter
from knowhub.context.commit.memory_page import MAX_CONTENT, edit_page
from knowhub.context.commit.policies import build_plan, find_target
from knowhub.context.commit_model import CandidateMemory, ChangedMemory, StatementFacts, ToolUse, WriteAction
from knowhub.context.model import MemoryCategory
from knowhub.conversations.recalled import normalize_words
from knowhub.core.operation import Row
from tests.builders import CountedIds, FakeClock
from tests.context_commits import memory_spaces
from tests.fakes.memory_store import MemoryStore

FIRST_DAY, NEXT_DAY = "2026-05-07T10:00:00Z", "2026-05-08T10:00:00Z"


def candidate(
    category: MemoryCategory,
    content: str,
    key: str = "work",
    message: str = "s1/m1",
    **fields: Any,  # noqa: ANN401 -- any fields
) -> CandidateMemory:
    source = f"ctx://default/users/li/sessions/{message}"
    return CandidateMemory(category, key, content, [source], **{"said_at": FIRST_DAY, **fields})


class PolicyAccount:
    """One account on which plans are carried out, one after the other, without a store."""

    def __init__(self) -> None:
        self.writer = ContextWriter(MemoryStore(FakeClock(), CountedIds()).view("default"), memory_spaces())

    def apply(self, new: CandidateMemory) -> tuple[WriteAction, Row]:
        """Plan and apply a candidate; return the action and the row afterwards."""
        plan = build_plan(new, memory_spaces(), self.writer.get_row)
        self.writer.apply_plan(plan)
        return plan.action, self.writer.get_row(plan.target_uri) or {}


def list_statements(row: Row) -> list[str]:
    assert row["content"].splitlines() == [statement["text"] for statement in row["metadata"]["statements"]]
    return [statement["text"] for statement in row["metadata"]["statements"]]


def list_history(row: Row) -> list[tuple[str, str, str | None]]:
    return [(item["text"], item["valid_to"], item["replaced_by"]) for item in row["metadata"]["history"]]


@pytest.mark.parametrize(
    ("category", "uri"),
    [
        (MemoryCategory.PROFILE, "ctx://default/users/li/memories/profile"),
        (MemoryCategory.SKILLS, "ctx://default/agents/~li/skills/绿茶%20%2F%20Tea"),
        (MemoryCategory.TOOLS, "ctx://default/agents/~li/tools/绿茶%20%2F%20Tea"),
    ],
)
def test_each_category_has_a_target_uri(category: MemoryCategory, uri: str) -> None:
    assert find_target(candidate(category, "Tea is good.", "绿茶 / Tea"), memory_spaces()) == uri


@pytest.mark.parametrize("category", [MemoryCategory.PREFERENCES, MemoryCategory.ENTITIES, MemoryCategory.PATTERNS])
def test_the_uri_of_a_topic_does_not_quote_its_name(category: MemoryCategory) -> None:
    places = {
        key: find_target(candidate(category, "Tea is good.", key), memory_spaces())
        for key in ("绿茶 / Tea", "绿茶 tea", "hunter2pass77")
    }

    assert places["绿茶 / Tea"] == places["绿茶 tea"] != places["hunter2pass77"]
    assert all(re.fullmatch(r"[0-9a-f]{12}", place.rpartition("/")[2]) for place in places.values())


def test_extraction_does_not_replace_edited_text() -> None:
    account = PolicyAccount()
    _, row = account.apply(candidate(MemoryCategory.PREFERENCES, "Answer in English.", "reply language"))
    edited = edit_page(row, {**row, "content": "Answer in French."}, 1.7e9)
    account.writer.merge_node(row["id"], edited)

    newer = candidate(
        MemoryCategory.PREFERENCES,
        "Answer in German.",
        "reply language",
        facts=StatementFacts(is_single=True),
        said_at="2030-01-01T00:00:00Z",
    )
    action, after = account.apply(newer)

    assert action is WriteAction.SKIP
    assert list_statements(after) == ["Answer in French."]


def test_statements_in_the_old_layout_are_still_read() -> None:
    account = PolicyAccount()
    _, row = account.apply(candidate(MemoryCategory.PROFILE, "x"))
    old = {name: value for name, value in row["metadata"].items() if name not in ("statements", "history")}
    content = "## work\n- I work as a nurse. (2026-05-07, session s1)\n\n## home\n- I live in Rome."
    account.writer.merge_node(row["id"], {"content": content, "metadata": old})

    _, after = account.apply(candidate(MemoryCategory.PROFILE, "I am 34 years old.", said_at=NEXT_DAY))

    assert list_statements(after) == ["I work as a nurse.", "I live in Rome.", "I am 34 years old."]
    assert after["metadata"]["statements"][0]["said_at"] == "2026-05-07T00:00:00Z"


def test_a_late_older_statement_replaces_nothing() -> None:
    account = PolicyAccount()
    account.apply(
        candidate(MemoryCategory.PROFILE, "I live in Oslo.", facts=StatementFacts({"home": "oslo"}), said_at=NEXT_DAY)
    )

    action, row = account.apply(
        candidate(MemoryCategory.PROFILE, "I live in Rome.", facts=StatementFacts({"home": "rome"}))
    )

    assert action is WriteAction.SKIP
    assert list_statements(row) == ["I live in Oslo."]


@given(
    st.lists(
        st.tuples(st.sampled_from(["work", "home", "team"]), st.text("abcde XYZ", min_size=1, max_size=12)), max_size=12
    )
)
def test_a_profile_keeps_every_uncontradicted_statement(said: Sequence[tuple[str, str]]) -> None:
    account = PolicyAccount()
    spoken = [text for _, text in said if any(char.isalnum() for char in text)]

    rows = [account.apply(candidate(MemoryCategory.PROFILE, text))[1] for text in spoken]

    kept = {normalize_words(text) for text in list_statements(rows[-1])} if rows else set()
    assert all(normalize_words(text) in kept for text in spoken)


def test_edited_lines_of_a_profile_keep_their_positions() -> None:
    account = PolicyAccount()
    _, row = account.apply(candidate(MemoryCategory.PROFILE, "I work as a nurse."))
    edited = edit_page(row, {**row, "content": "My notes\n" + row["content"] + "\nThe end."}, 1.7e9)
    account.writer.merge_node(row["id"], edited)

    _, after = account.apply(candidate(MemoryCategory.PROFILE, "I lead a ward."))

    assert list_statements(after) == ["My notes", "I work as a nurse.", "The end.", "I lead a ward."]
    assert [statement["by"] for statement in after["metadata"]["statements"]] == ["person", "rules", "person", "rules"]


def test_a_line_that_a_person_wrote_stays_theirs_where_it_is_said_again() -> None:
    account = PolicyAccount()
    _, row = account.apply(candidate(MemoryCategory.PROFILE, "I live in Oslo.", facts=StatementFacts({"home": "oslo"})))
    edited = edit_page(row, {**row, "content": f"{row['content']}\nI live in Rome."}, 1.7e9)
    account.writer.merge_node(row["id"], edited)

    moved = candidate(
        MemoryCategory.PROFILE, "I live in Rome.", facts=StatementFacts({"home": "rome"}), said_at=NEXT_DAY
    )
    _, after = account.apply(moved)

    assert [(item["text"], item["by"]) for item in after["metadata"]["statements"]] == [("I live in Rome.", "person")]


def test_a_repeated_statement_adds_only_its_source() -> None:
    account = PolicyAccount()
    account.apply(candidate(MemoryCategory.PREFERENCES, "I love oolong.", "tea"))

    action, row = account.apply(candidate(MemoryCategory.PREFERENCES, "I really love oolong!", "tea", message="s1/m2"))

    assert action is WriteAction.MERGE
    assert list_statements(row) == ["I love oolong."]
    assert row["metadata"]["source_refs"] == [f"ctx://default/users/li/sessions/s1/m{n}" for n in (1, 2)]


@pytest.mark.parametrize(
    ("new", "other"),
    [
        ("I like coffee.", "I don't like coffee."),
        ("我喜欢咖啡。", "我不喜欢咖啡。"),
        ("Wake me at 6.", "Wake me at 7."),
    ],
)
def test_similar_statements_are_both_kept_newest_first(new: str, other: str) -> None:
    account = PolicyAccount()
    account.apply(candidate(MemoryCategory.PREFERENCES, new, "x"))

    _, row = account.apply(candidate(MemoryCategory.PREFERENCES, other, "x", said_at=NEXT_DAY))

    assert list_statements(row) == [new, other]
    assert row["abstract"] == f"{other} {new}"


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text("abc XYZ", min_size=1, max_size=30)), max_size=10))
def test_statements_of_an_event_are_never_overwritten(said: Sequence[tuple[str, str]]) -> None:
    account = PolicyAccount()
    before: dict[str, str] = {}
    spoken = [(key, text) for key, text in said if text.strip()]

    for key, text in spoken:
        _, row = account.apply(candidate(MemoryCategory.EVENTS, text, f"event {key}"))

        assert row["content"].startswith(before.get(key, ""))
        assert normalize_words(text) in map(normalize_words, list_statements(row))
        before[key] = row["content"]


def change_candidate(target: str, text: str, instead_of: str, **kind: bool) -> CandidateMemory:
    changes = ChangedMemory(target, instead_of, **kind)
    return candidate(MemoryCategory.EVENTS, text, text, "s2/m9", said_at=NEXT_DAY, changes=changes)


def test_a_change_replaces_the_statement_that_it_names() -> None:
    account = PolicyAccount()
    _, row = account.apply(candidate(MemoryCategory.ENTITIES, "Has a cat, Pickle.", "cat"))

    _, after = account.apply(change_candidate(row["id"], "Pickle died.", "Has a cat, Pickle."))
    late, _ = account.apply(change_candidate(row["id"], "Pickle is ill.", "Has a cat, Pickle."))

    assert (after["category"], list_statements(after)) == ("entities", ["Pickle died."])
    assert list_history(after) == [("Has a cat, Pickle.", NEXT_DAY, "Pickle died.")]
    assert late is WriteAction.SKIP


def test_an_update_keeps_the_sources_of_the_old_statement() -> None:
    account = PolicyAccount()
    _, row = account.apply(candidate(MemoryCategory.ENTITIES, "Has a cat.", "cat"))

    _, after = account.apply(change_candidate(row["id"], "Has a cat, Pickle.", "Has a cat.", is_update=True))

    assert [ref[-5:] for ref in after["metadata"]["statements"][0]["source_refs"]] == ["s1/m1", "s2/m9"]


def test_a_memory_is_deleted_with_its_last_statement() -> None:
    account = PolicyAccount()
    _, row = account.apply(candidate(MemoryCategory.ENTITIES, "Has a cat.", "cat"))
    account.apply(candidate(MemoryCategory.ENTITIES, "The cat is grey.", "cat"))

    _, once = account.apply(change_candidate(row["id"], "Has a cat.", "Has a cat.", is_forgotten=True))
    _, twice = account.apply(change_candidate(row["id"], "The cat is grey.", "The cat is grey.", is_forgotten=True))

    assert (list_statements(once), once.get("deleted")) == (["The cat is grey."], None)
    assert twice["deleted"]
    assert [text for text, _, _ in list_history(twice)] == ["Has a cat.", "The cat is grey."]


def test_tool_statistics_add_up_and_make_the_text() -> None:
    account = PolicyAccount()
    account.apply(
        candidate(
            MemoryCategory.TOOLS,
            "x",
            "grep",
            uses=[ToolUse("1", seconds=1.0), ToolUse("2", ok=False, note="no such file")],
        )
    )

    _, row = account.apply(candidate(MemoryCategory.TOOLS, "x", "grep", uses=[ToolUse("3", seconds=2.0, at=NEXT_DAY)]))

    assert row["metadata"]["stats"] == {
        "calls": 3,
        "success": 2,
        "failure": 1,
        "last_used": NEXT_DAY,
        "total_seconds": 3.0,
    }
    assert row["abstract"] == ("Tool grep: 3 calls, 2 succeeded, 1 failed, 3.00 s in all; last used 2026-05-08.")
    assert row["content"] == f"{row['abstract']}\n\n- failed: no such file"


def test_edited_text_about_a_tool_is_kept() -> None:
    account = PolicyAccount()
    _, row = account.apply(candidate(MemoryCategory.TOOLS, "x", "grep", uses=[ToolUse("1")]))
    account.writer.merge_node(row["id"], {"content": row["content"] + "\n\nPrefer rg."})

    _, after = account.apply(candidate(MemoryCategory.TOOLS, "x", "grep", uses=[ToolUse("1")]))

    assert after["content"] == f"{after['abstract']}\n\nPrefer rg."


@pytest.mark.parametrize("category", [item for item in MemoryCategory if item is not MemoryCategory.SESSIONS])
def test_an_erased_memory_is_not_written_again(category: MemoryCategory) -> None:
    new = candidate(category, "I moved.", "i moved", uses=[ToolUse("1")])

    plan = build_plan(new, memory_spaces(), lambda _uri: {"erased": True, "deleted": True, "version": 3})

    assert plan.action is WriteAction.SKIP
    assert "erased" in plan.reason


def test_a_full_memory_skips_new_statements_with_a_reason() -> None:
    account = PolicyAccount()
    _, row = account.apply(candidate(MemoryCategory.PREFERENCES, "I love oolong.", "tea"))
    full = edit_page(row, {**row, "content": "x" * MAX_CONTENT}, 1.7e9)
    account.writer.merge_node(row["id"], full)

    plan = build_plan(
        candidate(MemoryCategory.PREFERENCES, "I love sencha.", "tea"), memory_spaces(), account.writer.get_row
    )

    assert plan.action is WriteAction.SKIP
    assert "full" in plan.reason


def test_a_repeated_edge_is_stored_once() -> None:
    account = PolicyAccount()
    for text in ("Anna is my sister.", "Anna lives in Porto."):
        _, row = account.apply(candidate(MemoryCategory.ENTITIES, text, "Anna"))

    assert [(edge["relation_type"], edge["weight"]) for edge in row["relations"]] == [("extracted_from", 0.9)]
