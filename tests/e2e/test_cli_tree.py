"""`knowhub tree` and `knowhub replay` as a person and an agent use them: real processes, a real directory."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowhub.cli.main import load_command
from tests.e2e.command_line import Cli, CommandResult, run_server_command
from tests.e2e.scripted_llm import running_llm

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/taxonomy.jsonl"
OPTION = re.compile(r"--[a-z][a-z-]+")

SMALL: list[dict[str, Any]] = [
    {"kind": "keyword", "ref": "lang", "name": "编程语言", "aliases": ["programming language"], "description": "代码"},
    {"kind": "keyword", "ref": "java", "parent_ref": "lang", "name": "Java", "aliases": ["JDK"], "description": "语言"},
    {"kind": "keyword", "ref": "cpp", "parent_ref": "lang", "name": "C++", "aliases": ["cpp"]},
    {"kind": "keyword", "ref": "places", "name": "地方"},
    {
        "kind": "keyword",
        "ref": "island",
        "parent_ref": "places",
        "name": "Java",
        "aliases": ["爪哇岛"],
        "description": "岛",
    },
    {"kind": "info", "content": "用 equals 比较", "source": "JLS", "links": [{"ref": "java"}]},
    {
        "kind": "info",
        "content": "雅加达在岛上",
        "links": [{"ref": "island"}, {"ref": "places", "relation": "EXAMPLE"}],
    },
]


def to_json_lines(*rows: dict[str, Any]) -> bytes:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path / "data")
    loaded = made.json("tree", "load", "-", stdin=to_json_lines(*SMALL))
    assert (loaded["keywords"], loaded["infos"], loaded["links"]) == (5, 2, 3)
    return made


def id_of(cli: Cli, name: str) -> str:
    return str(cli.json("tree", "search", name, "--no-llm")["node"]["id"])


def read_refusal(ended: CommandResult) -> str:
    assert (ended.code, ended.out) == (1, "")
    return ended.err


def test_the_example_is_loaded_and_found_in_every_spelling(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "data")

    loaded = cli.json("tree", "load", str(EXAMPLE))

    assert (loaded["keywords"], loaded["infos"], loaded["links"]) == (493, 227, 380)
    # The keywords, and the infos with all their links.
    assert len(loaded["operation_ids"]) == 2
    with run_server_command(cli.data) as url:
        for spelling in ("数据库", "資料庫", "DATABASE", "shujuku"):
            found = httpx.get(f"{url}/api/keywords/search", params={"q": spelling, "llm_expand_query": False}).json()
            assert (found["status"], found["node"]["name"]) == ("matched", "数据库")
        metrics = httpx.get(f"{url}/api/keywords/metrics").json()
        assert cli.json("tree", "metrics") == metrics
        assert (metrics["nodes"], metrics["links"], metrics["orphan_info_count"]) == (493, 380, 0)
        named = {duplicate["token"] for duplicate in metrics["duplicates"]}
        assert named == {"java", "python", "swift", "token", "会话", "苹果", "亚马逊"}


@pytest.mark.parametrize(("auth", "scopes"), [("none", ["public"]), ("api-key", ["user:owner"])])
def test_rows_without_scopes_are_public_only_without_keys(tmp_path: Path, auth: str, scopes: list[str]) -> None:
    cli = Cli(tmp_path / "data")
    lines = b'{"kind":"keyword","name":"ants"}\n{"kind":"info","content":"about ants"}'

    for words in (("load", "-"), ("add", "bees"), ("info", "add", "about bees")):
        ended = cli("tree", *words, "--json", stdin=lines, KNOWHUB_AUTH=auth)
        assert ended.code == 0, ended.err

    with run_server_command(cli.data) as url:
        keywords = httpx.get(f"{url}/api/keywords/root/children").json()["results"]
        infos = httpx.get(f"{url}/api/infos").json()["results"]
    assert {row["name"]: row["scopes"] for row in keywords} == {"ants": scopes, "bees": scopes}
    assert {row["content"]: row["scopes"] for row in infos} == {"about ants": scopes, "about bees": scopes}


def test_an_ambiguous_name_is_refused_with_the_paths(cli: Cli) -> None:
    result = read_refusal(cli("tree", "move", "Java", "编程语言"))

    assert "2 keywords are called 'Java'" in result
    assert "path 编程语言/Java" in result
    assert "path 地方/Java" in result


def test_move_merge_alias_and_rm_are_undone_one_after_the_other(cli: Cli) -> None:
    before = cli("tree", "show", "--depth", "5").out
    assert "add --allow-duplicate" in read_refusal(cli("tree", "move", "爪哇岛", "编程语言"))
    assert "too with --cascade" in read_refusal(cli("tree", "rm", "编程语言"))
    done = [
        cli.json("tree", "move", "爪哇岛", "编程语言", "--allow-duplicate"),
        cli.json("tree", "merge", "爪哇岛", "JDK"),
    ]
    assert done[1]["aliases"] == ["JDK", "爪哇岛"]
    assert cli.json("tree", "info", "list", "JDK", "--sort", "relevance")["count"] == 2
    done.append(cli.json("tree", "alias", "JDK", "OpenJDK"))
    done.append(cli.json("tree", "alias", "OpenJDK", "JDK", "--remove"))
    assert done[3]["aliases"] == ["爪哇岛", "OpenJDK"]
    done.append(cli.json("tree", "rm", "编程语言", "--cascade", "--infos", "detach"))
    assert [child["name"] for child in cli.json("tree", "show")["children_nodes"]] == ["地方"]

    for item in reversed(done):
        cli.json("undo", item["operation_id"])

    assert cli("tree", "show", "--depth", "5").out == before


def test_a_plan_is_shown_written_edited_and_carried_out_as_one_operation(cli: Cli, tmp_path: Path) -> None:
    cli.json("tree", "add", "C++ 模板", "--no-llm")
    cli.json("tree", "add", "C++ 协程", "--no-llm")
    file = tmp_path / "plan.json"

    printed = cli("tree", "reorganize", "--out", str(file))

    assert "root / C++ 模板" in printed.out
    assert cli.json("tree", "show", "cpp")["child_count"] == 0
    plan = json.loads(file.read_text())
    assert [step["kind"] for step in plan["steps"]] == ["move", "move"]
    file.write_text(json.dumps({**plan, "steps": plan["steps"][:1]}))

    applied = cli.json("tree", "reorganize", "--plan", str(file), "--apply")

    assert applied["moved"] == 1
    assert [child["name"] for child in cli.json("tree", "show", "cpp")["children_nodes"]] == ["C++ 模板"]
    # It was made for another state of the tree now.
    assert "stale" in cli("tree", "reorganize", "--plan", str(file), "--apply").err
    cli.json("undo", applied["operation_id"])
    assert cli.json("tree", "show", "cpp")["child_count"] == 0
    again = cli("tree", "reorganize", "--apply")
    assert "2 moved" in again.out
    assert cli.json("tree", "show", "cpp")["child_count"] == 2


def test_an_invalid_plan_is_refused(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    for text, named in (("nothing", "not JSON"), ("[]", "not a plan"), ('{"steps":[{"kind":"burn"}]}', "steps.0.kind")):
        file.write_text(text)

        ended = cli("tree", "reorganize", "--plan", str(file), "--apply")

        assert ended.code == 1
        assert named in ended.err


@pytest.mark.anyio
async def test_a_failed_call_and_a_decision_of_another_function_are_shown_by_replay(cli: Cli) -> None:
    async with running_llm({"match": "C++"}, {"status": 500}) as llm:
        for query in ("the language with templates", "the language with beans"):
            cli("tree", "search", query, KNOWHUB_LLM_BASE_URL=llm.url, KNOWHUB_LLM_ATTEMPTS="1")

    printed = cli("replay")

    assert "the language with templates" in printed.out
    assert "failed  agent_failure" in printed.out
    assert printed.out.endswith("decisions: 2\n")
    assert cli.json("replay", "--function", "link_info")["count"] == 0


def test_every_option_of_the_tree_is_named_in_its_reference() -> None:
    page = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    tree = load_command("tree")
    infos = tree.commands["info"]
    nested = {f"info {name}": command for name, command in infos.commands.items()}
    shared = set(OPTION.findall(page.partition("\n### ")[0]))
    section = page.partition("### knowhub tree\n")[2].partition("\n### ")[0]

    for name, command in {**tree.commands, **nested}.items():
        if name == "info":
            continue
        row = next((line for line in section.splitlines() if line.startswith(f"| `{name}")), "")
        options = {option for parameter in command.params for option in parameter.opts if option[:2] == "--"}
        assert options - shared - set(OPTION.findall(row)) == set(), name
