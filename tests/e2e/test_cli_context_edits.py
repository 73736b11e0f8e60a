"""`knowhub context` on memories written by hand: each command in a process of its own."""

from tests.e2e.command_line import Cli

SPACE = "ctx://default/users/li/memories"
LANGUAGE, FINANCE = f"{SPACE}/preferences/language", f"{SPACE}/entities/finance"


def test_memories_are_added_changed_linked_and_forgotten(cli: Cli) -> None:
    added = cli("context", "add", "preferences", "报告一律用中文。", "--name", "lang", "--tag", "topic=reports")
    cli.json("context", "add", "entities", "Finance")
    linked = cli.json("context", "link", FINANCE, f"{SPACE}/preferences/lang", "--type", "because_of")
    moved = cli.json("context", "move", f"{SPACE}/preferences/lang", LANGUAGE)
    edited = cli.json("context", "edit", LANGUAGE, "--content", "报告用英文", "--tag", "topic=mail")

    assert added.out.startswith(f"preferences  {SPACE}/preferences/lang\nundo it with: knowhub undo ")
    assert [edge["relation_type"] for edge in linked["relations"]] == ["because_of"]
    assert (moved["uri"], edited["content"], edited["tags"]) == (LANGUAGE, "报告用英文", {"topic": "mail"})
    assert cli("context", "grep", "英文").out == f"{LANGUAGE}:1: 报告用英文\n"
    assert cli.json("context", "unlink", FINANCE, LANGUAGE)["relations"] == []

    forgotten = cli("context", "forget", LANGUAGE)

    assert forgotten.out.startswith(f"deleted  {LANGUAGE}\nundo it with: knowhub undo ")
    assert cli("context", "grep", "英文").out == ""


def test_a_change_of_nothing_is_refused(cli: Cli) -> None:
    ended = cli("context", "edit", LANGUAGE)

    assert (ended.code, "--content" in ended.err) == (2, True)
