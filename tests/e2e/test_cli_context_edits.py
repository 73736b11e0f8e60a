"""`knowhub context` on memories written by hand: each command in a process of its own."""

import json

from tests.e2e.command_line import Cli

SPACE = "ctx://default/users/li/memories"
LANGUAGE, FINANCE = f"{SPACE}/preferences/language", f"{SPACE}/entities/finance"


def test_memories_are_added_changed_linked_and_forgotten(cli: Cli) -> None:
    added = cli("context", "add", "preferences", "报告一律用中文。", "--name", "lang", "--tag", "topic=reports")
    cli.json("context", "add", "entities", "Finance", "--name", "finance")
    linked = cli.json("context", "link", FINANCE, f"{SPACE}/preferences/lang", "--type", "because_of")
    moved = cli.json("context", "move", f"{SPACE}/preferences/lang", LANGUAGE)
    edited = cli.json("context", "edit", LANGUAGE, "--content", "报告用英文", "--tag", "topic=mail")

    assert added.out.startswith(f"preferences  {SPACE}/preferences/lang\nundo it with: knowhub undo ")
    assert [edge["relation_type"] for edge in linked["relations"]] == ["because_of"]
    assert (moved["uri"], edited["content"], edited["tags"]) == (LANGUAGE, "报告用英文", {"topic": "mail"})
    assert cli("context", "grep", "英文").out == f"{LANGUAGE}:1: 报告用英文\n"
    several = cli("context", "read", LANGUAGE, f"{LANGUAGE}x", FINANCE).out
    assert several == f"{LANGUAGE}\n报告用英文\n\n{FINANCE}\nFinance\n\nmissing  {LANGUAGE}x\n"
    assert cli.json("context", "unlink", FINANCE, LANGUAGE)["relations"] == []

    forgotten = cli("context", "forget", LANGUAGE)

    assert forgotten.out.startswith(f"deleted  {LANGUAGE}\nundo it with: knowhub undo ")
    assert cli("context", "grep", "英文").out == ""


def test_sessions_and_what_is_current_are_listed_and_an_erased_message_is_nowhere(cli: Cli) -> None:
    messages = json.dumps(
        [
            {"role": "user", "content": text, "message_id": name}
            for name, text in (("m1", "I live in Porto."), ("m2", "The pin is 4471."))
        ]
    ).encode()
    session = "ctx://default/users/li/sessions/s1"
    cli("context", "commit", "-", "--session-id", "s1", stdin=messages)

    erased = cli("context", "forget", f"{session}/m2", "--erase")

    assert erased.out == f"erased  {session}/m2\n"
    assert cli("context", "grep", "4471").out == ""
    assert cli("context", "profile").out == "- I live in Porto.\n"
    assert cli("context", "sessions").out == f"{session}  1 messages: 0 read by a model, 2 by rules, 0 wait\n"
