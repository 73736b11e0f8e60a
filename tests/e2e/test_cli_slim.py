"""`knowhub slim` as a person uses it: look first, merge, and take it back."""

from tests.e2e.command_line import Cli


def test_copies_are_shown_merged_and_brought_back(cli: Cli) -> None:
    lines = b'{"id":"a","content":"Use pnpm here."}\n{"id":"b","content":"use PNPM here."}\n'
    cli.json("import", "-", stdin=lines)

    shown = cli("slim", "--dry-run")
    planned = cli.json("slim", "--dry-run")
    done = cli.json("slim")

    assert (shown.code, "2 records would become 1" in shown.out) == (0, True)
    assert [(item["into"], item["sources"]) for item in planned["merged"]] == [("a", ["b"])]
    assert (planned["slim_id"], done["records_after"]) == (None, 1)
    assert [row["id"] for row in cli.json("list")["results"]] == ["a"]
    assert cli("undo", done["slim_id"]).code == 0
    assert sorted(row["id"] for row in cli.json("list")["results"]) == ["a", "b"]
    assert "knowhub undo slim-" in cli("slim").out
