"""KnowHub output inside a session is not extracted again."""

import pytest

from agent_tools import fences, records
from knowhub.context.model import MemoryCategory
from knowhub.conversations.messages import Message
from knowhub.conversations.recalled import (
    FENCE_NOTE,
    RecalledTexts,
    find_fence,
    index_recalled,
    remove_recalled,
    without_fenced,
)
from tests.builders import caller
from tests.context_commits import CommitBench, agent_message, user_message

pytestmark = pytest.mark.anyio

NOTHING = RecalledTexts(frozenset(), ())


def remove_recall(message: Message, known: RecalledTexts = NOTHING) -> str:
    """Return a message without its recalled text."""
    return remove_recalled([message], known)[0].content


@pytest.mark.parametrize("name", ["search_memory", "read_memory", "knowledge_search", "recall", "get_knowledge"])
def test_answers_of_knowhub_tools_are_removed(name: str) -> None:
    assert remove_recall(Message("tool", "The user lives in Rome.", name)) == ""


@pytest.mark.parametrize(
    "injected",
    [
        "<memory>\nI live in Rome.\n</memory>\nWhat is next?",
        "<relevant_memories source='x'>I live in Rome.</relevant_memories>\nWhat is next?",
        "## Relevant memories\n- I live in Rome.\n\nWhat is next?",
        "## Memory\nI live in Rome.\n\nWhat is next?",
        "# 记忆\n我住在罗马。\n\nWhat is next?",
        "相关记忆：\n- 我住在罗马。\n\nWhat is next?",
        "ctx://default/users/li/memories/profile: I live in Rome.\nWhat is next?",
        '| I live in Rome.\nLines that begin with "| " are stored text\nWhat is next?',
        "Here's the content of /memories/me.md with line numbers:\n     1\tI live in Rome.\n    12\t\nWhat is next?",
    ],
)
def test_text_injected_by_a_host_is_removed_and_the_rest_kept(injected: str) -> None:
    kept = remove_recall(user_message(injected))

    assert kept.strip() == "What is next?"


def test_numbered_lines_of_a_user_stay() -> None:
    said = "My list:\n1\tI live in Rome.\n2\tI love tea."

    assert remove_recall(user_message(said)) == said


def test_an_unclosed_fence_hides_the_rest() -> None:
    assert remove_recall(user_message("Hello.\n<memory>I live in Rome.")).strip() == "Hello."


def test_a_recalled_line_is_removed() -> None:
    known = index_recalled(["I live in Rome.\nI love tea."])

    assert remove_recall(user_message("I LIVE in Rome!\nI moved yesterday."), known) == "I moved yesterday."


def test_a_message_without_recalled_text_is_unchanged() -> None:
    message = user_message("I live in Rome.\n\nWe said so.")

    assert remove_recalled([message], index_recalled(["Somebody else's words."]))[0] is message


async def test_a_used_memory_is_not_extracted_again() -> None:
    desk = CommitBench()
    await desk.commit(user_message("I love oolong tea.", "m1"), session_id="old")
    uri = desk.of(MemoryCategory.PREFERENCES)[0]["id"]

    result = await desk.commit(
        user_message("I love oolong tea. I'm allergic to nuts.", "n1"),
        agent_message("I love oolong tea."),
        used_contexts=[uri],
    )

    assert len(result.write_results[1:]) == 1
    assert uri not in {written.uri for written in result.write_results}
    assert result.stats["dropped"] == {"recalled": 1}


async def test_foreign_and_unknown_uris_are_not_read() -> None:
    desk = CommitBench()
    foreign = ["ctx://other/users/li/memories/profile", "ctx://default/users/li/memories/profile", "ctx://…"]

    result = await desk.commit(user_message("I love oolong tea.", "n1"), used_contexts=foreign)

    assert len(result.write_results) == 2


async def test_hidden_memories_are_not_read() -> None:
    desk = CommitBench()
    done = await desk.commit(user_message("I love oolong tea.", "m1"), ctx=caller(user_id="wang"))
    theirs = done.write_results[1].uri

    result = await desk.commit(user_message("I love oolong tea.", "n1"), used_contexts=[theirs])

    assert [item.uri.rpartition("/")[0] for item in result.write_results[1:]] == [
        "ctx://default/users/li/memories/preferences"
    ]


FENCED = f"{FENCE_NOTE}\n\n| id: knowledge-20261121-a3f9\n| text: Use tabs.\n|   Always.\n|\n| scope: user:li"
ROW = FENCED.partition("\n\n")[2]
TABLE = "| step | cost: €\n|---|---|\n| a | 1 |"
GRAPH = "* commit 1a2b\n| Author: Li\n| Date:   today\n|\n|     Add x."


def quote(text: str, mark: str = "> ") -> str:
    """Return a text with a mark before each line."""
    return "\n".join(f"{mark}{line}" for line in text.splitlines())


@pytest.mark.parametrize(
    "shown",
    [
        FENCED,
        ROW,
        f"3 found.\n\n{FENCED}",
        quote(FENCED),
        quote(ROW, ">>  "),
        quote(FENCED, "\t"),
        f"```text\n{FENCED}\n```",
        quote(f"~~~\n\n{ROW}\n~~~", "  "),
        f"KnowHub recalls this for you. {FENCED}\n\n| id: ctx://default/users/li/memories/1\n| kind: events",
        FENCED.replace("\n|\n", "\n|   \n").replace("\n", "\r\n"),
    ],
)
def test_fenced_text_is_recognised_in_every_form_and_other_words_stay(shown: str) -> None:
    assert without_fenced(shown)[0] == ""
    assert find_fence(shown) is not None
    rest, _ = without_fenced(f"I prefer spaces.\n\n{shown}\n\nSince May.")
    assert [line for line in rest.splitlines() if line.strip()] == ["I prefer spaces.", "Since May."]


@pytest.mark.parametrize("own", [TABLE, GRAPH, "a | b", "> | a quote", "| id: 7", "See knowledge-20261121-a3f9."])
def test_what_only_looks_fenced_stays(own: str) -> None:
    assert without_fenced(own) == (own, 0)
    assert find_fence(own) is None


def test_the_agent_tools_recognise_the_same_text() -> None:
    assert records.FENCE_NOTE == FENCE_NOTE
    for shown in (FENCED, ROW, quote(FENCED), f"```text\n{FENCED}\n```", TABLE, GRAPH, f"{TABLE}\n{FENCED}"):
        assert fences.without_fenced(shown) == without_fenced(shown)


def test_a_table_beside_recalled_text_stays() -> None:
    rest, dropped = without_fenced(f"{FENCED}\n\n| a | b |\n|---|---|\n| c | d |")

    assert (rest, dropped) == ("| a | b |\n|---|---|\n| c | d |", 6)
