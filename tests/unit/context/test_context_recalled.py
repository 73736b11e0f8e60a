"""KnowHub output inside a session is not extracted again."""

import json

import pytest

from agent_tools.fences import FENCE_NOTE, HEADING, find_fence, remove_fenced
from knowhub.context.model import MemoryCategory
from knowhub.conversations.messages import Message
from knowhub.conversations.recalled import RecalledTexts, index_recalled, remove_recalled
from tests.builders import caller
from tests.context_commits import CommitBench, agent_message, user_message

pytestmark = pytest.mark.anyio

NOTHING = RecalledTexts(frozenset(), ())


def remove_recall(message: Message, known: RecalledTexts = NOTHING) -> str:
    """Return a message without its recalled text."""
    return remove_recalled([message], known)[0].content


@pytest.mark.parametrize("name", ["search_memory", "read_memory", "knowledge_search", "goal", "mcp__knowhub__recall"])
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
        f"{FENCE_NOTE}\n| I live in Rome.\nWhat is next?",
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
    bench = CommitBench()
    await bench.commit(user_message("I love oolong tea.", "m1"), session_id="old")
    uri = bench.of(MemoryCategory.PREFERENCES)[0]["id"]

    result = await bench.commit(
        user_message("I love oolong tea. I'm allergic to nuts.", "n1"),
        agent_message("I love oolong tea."),
        used_contexts=[uri],
    )

    assert len(result.write_results[1:]) == 1
    assert uri not in {written.uri for written in result.write_results}
    assert result.stats["dropped"] == {"recalled": 1}


async def test_foreign_and_unknown_uris_are_not_read() -> None:
    bench = CommitBench()
    foreign = ["ctx://other/users/li/memories/profile", "ctx://default/users/li/memories/profile", "ctx://…"]

    result = await bench.commit(user_message("I love oolong tea.", "n1"), used_contexts=foreign)

    assert len(result.write_results) == 2


async def test_hidden_memories_are_not_read() -> None:
    bench = CommitBench()
    done = await bench.commit(user_message("I love oolong tea.", "m1"), ctx=caller(user_id="wang"))
    theirs = done.write_results[1].uri

    result = await bench.commit(user_message("I love oolong tea.", "n1"), used_contexts=[theirs])

    assert [item.uri.rpartition("/")[0] for item in result.write_results[1:]] == [
        "ctx://default/users/li/memories/preferences"
    ]


RECORD = "| id: knowledge-20261121-a3f9\n| text: Use tabs.\n|   Always.\n|\n| scope: user:li"
FENCED = f"{FENCE_NOTE}\n\n{RECORD}"
UUID = "0b9f1c2d-3e4f-4a5b-a6c7-d8e9f0a1b2c3"
ROWS = [
    RECORD,
    f"| tag: K1\n{RECORD}\n\n{RECORD}",
    "| uri: ctx://default/users/li/memories/profile\n| abstract: Lives in Rome.",
    f"| keyword id: {UUID}\n| path: tools/git\n| description: Use tabs.",
    f"| info id: {UUID}\n| content: Use tabs.",
    f"| id: {UUID}\n| source: keywords\n| kind: info\n| text: Use tabs.",
    f"| id: markdown-{'0a' * 16}\n| content: Use tabs.",
]
HOSTS_MARKS = ["> ", ">>  ", "\t", "- ", "* > ", "     3→", "    12\t", "> 3→"]


def mark(text: str, before: str) -> str:
    """Return a text with a mark before each line."""
    return "\n".join(f"{before}{line}" for line in text.splitlines())


SHOWN = [
    FENCED,
    *ROWS,
    *(mark(FENCED, before) for before in HOSTS_MARKS),
    *(mark(row, before) for row in ROWS for before in HOSTS_MARKS),
    "\n".join(("- ", "  ")[number > 0] + line for number, line in enumerate(RECORD.splitlines())),
    f"3 found.\n\n{FENCED}",
    f"20 found. There are more: raise limit to see them.\n\n{FENCED}\n\n{ROWS[3]}",
    f"```text\n{FENCED}\n```",
    f"````\n{RECORD}\n\n{RECORD}\n````",
    mark(f"~~~\n\n{RECORD}\n~~~", "  "),
    f"{HEADING} {FENCED}\n\n| id: any\n| kind: events",
    f"{FENCE_NOTE}\n\n| memory: Use tabs.\n\n| memory: In May.",
    f"{FENCE_NOTE}\n\n| created: ctx://default/users/li",
    f"> {FENCE_NOTE}\n> | Use tabs.",
    FENCED.replace("\n|\n", "\n|   \n").replace("\n", "\r\n"),
]
OWN = [
    "| step | cost: €\n|---|---|\n| a | 1 |",
    "| id: number | the key |\n| name: text | what it is called |",
    "| field | type |\n|---|---|\n| id: knowledge-20261121-a3f9 | text |\n| uri: ctx://default/a | text |",
    "* commit 1a2b\n| Author: Li\n| Date:   today\n|\n|     Add x.",
    'val text = """\n    | id: 42\n    | name: Li\n    """.trimMargin()',
    '"""| id: knowledge-20261121-a3f9\n   | name: Li"""',
    "| id: JIRA-12\n| status: open",
    "- | id: 7\n  | uri: https://example.org",
    "| id: 550e8400-e29b-41d4-a716-446655440000\n| name: Li",
    "cat log \\\n  | grep error \\\n  | sort\n\n\nps\n| wc -l",
    "type Mode =\n  | 'read'\n  | 'write'",
    "let f = function\n  | Some x -> x\n  | None -> 0",
    "error[E0308]: mismatched types\n 12 |     let x: i32 = id;\n    |                  ^^",
    "a | b",
    "> | a quote",
    "See knowledge-20261121-a3f9.",
    "3 found. We decided to keep both.",
    f'The note "{FENCE_NOTE}" stands above: see\n\n| a: 1\n| b: 2',
    "  indented\r\n\r\n> one\r\n>\r\n> two\r\n\r\n```\r\n```\r\n\tlast  \r\n",
]


@pytest.mark.parametrize("shown", SHOWN)
def test_shown_text_is_recognised_in_every_form_and_other_words_stay(shown: str) -> None:
    assert remove_fenced(shown)[0] == ""
    assert find_fence(shown) == 0
    assert (
        remove_fenced(f"  I prefer spaces.\n\n{shown}\n\n  Since May.\n")[0] == "  I prefer spaces.\n\n  Since May.\n"
    )
    assert remove_fenced(f"It says:\n{shown}\nNo.") == ("It says:\nNo.", remove_fenced(shown)[1])


@pytest.mark.parametrize("own", OWN)
def test_what_only_looks_fenced_stays(own: str) -> None:
    assert remove_fenced(own) == (own, 0)
    assert find_fence(own) is None


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("shown", [FENCED, RECORD, mark(FENCED, "> ")])
def test_own_words_around_shown_text_stay_as_they_are(shown: str, own: str) -> None:
    # Without a word between them, what begins with «id: » looks like another row.
    assert remove_fenced(f"{own}\n\n{shown}\n\nMine:\n{own}")[0] == f"{own}\n\nMine:\n{own}"


RESULT = {"results": [{"id": "ctx://default/users/li/memories/events/1", "source": "memory", "text": "Lives in Rome."}]}
CONTENT = [{"type": "text", "text": f"{FENCE_NOTE}\n\n| id: any\n| text: Lives in Rome."}]


@pytest.mark.parametrize(
    "output",
    [
        json.dumps(RESULT),
        json.dumps({"results": [{"id": UUID, "source": "keywords", "text": "Lives in Rome."}]}, indent=1),
        json.dumps(CONTENT),
        json.dumps({"content": CONTENT}),
        json.dumps([{"type": "text", "text": json.dumps(RESULT)}]),
        json.dumps({"contents": [{"uri": "knowhub://profile", "text": "Lives in Rome."}]}),
        f"Wall time: 0.1 seconds\nOutput:\n{json.dumps(CONTENT)}",
        json.dumps([{"text": f"{FENCE_NOTE}\n\n{ROWS[2]}\n\n{ROWS[3]}"}])[:-20],
    ],
)
def test_a_tool_that_answers_in_json_is_recognised_and_a_person_is_not(output: str) -> None:
    for name in ("mcp__memory__read", "read", ""):
        assert remove_recall(Message("tool", output, name)) == ""
    assert remove_fenced(output) == (output, 0)


@pytest.mark.parametrize(
    "output",
    [
        '{"id": 7, "text": "| a"}',
        '[{"id": "550e8400-e29b-41d4-a716-446655440000", "source": "git"}]',
        "[1] | x",
        "{" * 9000,
    ],
)
def test_what_another_tool_answers_stays(output: str) -> None:
    assert remove_recall(Message("tool", output, "mcp__git__recall")) == output
