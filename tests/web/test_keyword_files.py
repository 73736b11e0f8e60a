"""The keyword tree exported and imported: four formats, the same file twice, and files that no one should send."""

import csv
import io
import re
from typing import Any

import httpx
import orjson
import pytest

from tests.web.conftest import OpenServer
from tests.web.tree_files import CSV, HEAD, JSONL, OUTLINE, SKOS, import_file, list_paths, make_concept
from tests.web.trees import create_info, create_keyword, list_names, read_everything, undo

pytestmark = pytest.mark.anyio


async def create_tree(api: httpx.AsyncClient) -> None:
    """Create a tree with values that a format could lose."""
    top = await create_keyword(api, "TCP/IP | 网络", aliases=["- net", "a|b"], description='一行\n两行, "quoted" <&>')
    below = await create_keyword(api, "HTTP", top["id"], metadata={"icon": "globe"})
    await create_keyword(api, "Java", below["id"])
    await create_keyword(api, "Java", top["id"])
    saved = await create_info(api, "Retry-After", below["id"], source="RFC 9110")
    await api.put(f"/api/infos/{saved['id']}/keywords/{top['id']}", json={"relation": "RELATED"})
    await create_info(api, "on the root", "root")
    await create_info(api, "on nothing")


async def test_json_lines_keep_infos_links_scopes_and_metadata(
    api: httpx.AsyncClient, open_second_server: OpenServer
) -> None:
    await create_tree(api)
    exported = (await api.get("/api/keywords/export")).content
    await import_file(api, exported, JSONL, account="other")

    async def list_infos(account: str) -> list[Any]:
        infos = (await api.get("/api/infos", params={"account": account})).json()["results"]
        rows = []
        for row in infos:
            linked = await api.get(f"/api/infos/{row['id']}/keywords", params={"account": account})
            links = [(item["name"], item["relation"]) for item in linked.json()["results"]]
            rows.append((row["content"], row["source"], row["scopes"], row["owner"], links))
        http = (await api.get("/api/keywords/HTTP", params={"account": account})).json()
        return [rows, http["metadata"], http["scopes"], http["owner"]]

    assert await list_infos("other") == await list_infos("default")
    async with open_second_server() as later:
        assert (await later.get("/api/keywords/export")).content == exported


async def test_each_format_has_its_documented_text(api: httpx.AsyncClient) -> None:
    await create_tree(api)

    async def export(form: str) -> str:
        return (await api.get("/api/keywords/export", params={"format": form})).text

    assert (await export("outline")).splitlines() == [
        "TCP/IP \\| 网络 | - net | a\\|b",
        "  HTTP",
        "    Java",
        "  Java",
    ]
    rows = list(csv.DictReader(io.StringIO(await export("csv"))))
    assert [row["name"] for row in rows] == ["TCP/IP | 网络", "HTTP", "Java", "Java"]
    assert (rows[0]["parent_id"], rows[1]["parent_id"], rows[0]["description"]) == (
        "",
        rows[0]["id"],
        '一行\n两行, "quoted" <&>',
    )
    labels = re.findall("<skos:prefLabel>(.*)</skos:prefLabel>", await export("skos"))
    assert labels == ["TCP/IP | 网络", "HTTP", "Java", "Java"]


async def test_hidden_keywords_are_not_exported(api: httpx.AsyncClient) -> None:
    hidden = await create_keyword(api, "hidden", user_id="li", scopes=["user:li"])
    shown = await create_keyword(api, "shown", hidden["id"])
    await create_info(api, "secret", hidden["id"], user_id="li", scopes=["user:li"])
    await create_info(api, "seen", hidden["id"], shown["id"], user_id="li")

    lines = (await api.get("/api/keywords/export", params={"user_id": "chen"})).text.splitlines()

    rows = [orjson.loads(line) for line in lines]
    assert [row.get("name") or row["content"] for row in rows] == ["shown", "seen"]
    assert "parent_ref" not in rows[0]
    assert rows[1]["links"] == [{"ref": shown["id"], "relation": "PRIMARY"}]


async def test_an_import_is_one_undoable_group_and_merges_by_path(api: httpx.AsyncClient) -> None:
    await create_keyword(api, "语言")
    await create_info(api, "known", "语言")
    before = await read_everything(api)

    done = await import_file(api, "语言 | languages\n\tPython | py\n\t\tasyncio\nGo\n", OUTLINE)

    assert await list_paths(api) == {
        " > 语言": ["languages"],
        " > 语言 > Python": ["py"],
        " > 语言 > Python > asyncio": [],
        " > Go": [],
    }
    assert {name: done.json()[name] for name in ("keywords", "changed")} == {"keywords": 3, "changed": 1}
    undone = await undo(api, done.json()["import_id"])
    assert undone.status_code == 200, undone.text
    after = await read_everything(api)
    assert (after["tree"]["children"], after["infos"]) == (before["tree"]["children"], before["infos"])


async def test_keywords_of_others_that_would_get_something_are_counted_as_dropped(api: httpx.AsyncClient) -> None:
    await create_keyword(api, "Go", user_id="li")
    await create_keyword(api, "Rust", user_id="li")

    added = (await import_file(api, "Go | golang\n\tchannels\nRust\n", OUTLINE, user_id="chen")).json()
    again = (await import_file(api, "Go | golang\n", OUTLINE, user_id="chen")).json()

    dropped = [{"what": "keywords", "why": "not_yours", "count": 1}]
    assert (added["keywords"], added["changed"], added["dropped"]) == (1, 0, dropped)
    assert (again["operation_ids"], again["dropped"]) == ([], dropped)
    assert await list_paths(api) == {" > Go": [], " > Go > channels": [], " > Rust": []}


async def test_a_large_import_is_several_operations_of_one_group(api: httpx.AsyncClient) -> None:
    lines = ["top", *(f"  keyword {number}" for number in range(2_500))]

    done = (await import_file(api, "\n".join(lines), OUTLINE)).json()

    assert (done["keywords"], len(done["operation_ids"])) == (2_501, 3)
    assert (await api.get("/api/keywords/top")).json()["child_count"] == 2_500
    assert (await import_file(api, "\n".join(lines), OUTLINE)).json()["operation_ids"] == []
    await undo(api, done["import_id"])
    assert (await api.get("/api/keywords")).json()["count"] == 0


async def test_skos_is_read_as_others_write_it(api: httpx.AsyncClient) -> None:
    document = f"""<?xml version="1.0" encoding="UTF-8"?>{HEAD}
      <rdf:Description rdf:about="http://x/animal">
        <rdf:type rdf:resource="http://www.w3.org/2004/02/skos/core#Concept"/>
        <skos:prefLabel xml:lang="en">animal</skos:prefLabel><skos:prefLabel xml:lang="zh">动物</skos:prefLabel>
        <skos:altLabel xml:lang="en">fauna</skos:altLabel><skos:definition>Lives.</skos:definition>
        <skos:narrower><skos:Concept rdf:about="http://x/cat" skos:prefLabel="cat"/></skos:narrower>
      </rdf:Description>
      {make_concept("http://x/tiger", "tiger", "http://x/cat")}
      <skos:Concept rdf:about="http://x/cat"><skos:altLabel>feline</skos:altLabel></skos:Concept></rdf:RDF>"""

    done = await import_file(api, document, "text/xml")

    assert done.status_code == 200, done.text
    assert await list_paths(api) == {
        " > 动物": ["animal", "fauna"],
        " > 动物 > cat": ["feline"],
        " > 动物 > cat > tiger": [],
    }
    assert (await api.get("/api/keywords/fauna")).json()["metadata"] == {"uri": "http://x/animal"}


async def test_what_a_keyword_has_no_place_for_is_counted_as_dropped(api: httpx.AsyncClient) -> None:
    document = f"""{HEAD}<skos:Concept rdf:about="u:1" xml:lang="en" skos:notation="1.1">
      <skos:prefLabel>cat</skos:prefLabel><skos:definition>A pet.</skos:definition>
      <skos:definition xml:lang="de">Ein Haustier.</skos:definition><skos:scopeNote>Of any size.</skos:scopeNote>
      <skos:related rdf:resource="u:2"/><skos:related rdf:resource="u:3"/><skos:inScheme rdf:resource="u:0"/>
    </skos:Concept></rdf:RDF>"""

    done = (await import_file(api, document, SKOS)).json()
    plain = (await import_file(api, "cat", OUTLINE)).json()

    left_out = {"skos:related": 2, "skos:notation": 1, "skos:definition": 1, "skos:scopeNote": 1}
    assert {item["what"]: item["count"] for item in done["dropped"]} == left_out
    assert {item["why"] for item in done["dropped"]} == {"no_place"}
    assert plain["dropped"] == []


ENTITIES = "".join(f'<!ENTITY a{level + 1} "{f"&a{level};" * 10}">' for level in range(9))
BOMB = f"""<!DOCTYPE r [<!ENTITY a0 "lol">{ENTITIES}]>{HEAD}{make_concept("u:1", "&a9;")}</rdf:RDF>"""


@pytest.mark.parametrize(
    ("text", "media_type", "field", "said"),
    [
        (
            HEAD + make_concept("u:1", "a", "u:2") + make_concept("u:2", "b", "u:1") + "</rdf:RDF>",
            SKOS,
            "concepts.1.broader",
            "itself",
        ),
        (HEAD + make_concept("u:1", "a", "u:1") + "</rdf:RDF>", SKOS, "concepts.1.broader", "itself"),
        (HEAD + make_concept("u:1", "a", "u:2", "u:3") + "</rdf:RDF>", SKOS, "concepts.1.broader", "2 broader"),
        (HEAD + make_concept("u:1", "a", "u:9") + "</rdf:RDF>", SKOS, "concepts.1.broader", "not in the file"),
        (HEAD + make_concept("u:1", "") + "</rdf:RDF>", SKOS, "concepts.1.prefLabel", "no label"),
        (HEAD + make_concept("u:1", "x" * 201) + "</rdf:RDF>", SKOS, "concepts.1.name", "200"),
        (HEAD + make_concept("u:1", "a"), SKOS, "body", "is not XML"),
        ("@prefix skos: <http://www.w3.org/2004/02/skos/core#> .", SKOS, "body", "Turtle"),
        ("<html/>", SKOS, "body", "rdf:RDF"),
        (BOMB, SKOS, "body", "entities"),
        (f'<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>{HEAD}&x;</rdf:RDF>', SKOS, "body", "entities"),
        (HEAD + "<a>" * 5_000 + "</a>" * 5_000 + "</rdf:RDF>", SKOS, "body", "nested"),
        (HEAD + "</rdf:RDF>", SKOS, "body", "no skos:Concept"),
        (HEAD + f"<a {'b' * 3 * 2**20}", SKOS, "body", "more than 2097152 bytes"),
        (HEAD + f"<!-- {'b ' * 3 * 2**19} --></rdf:RDF>", SKOS, "body", "more than 2097152 bytes"),
        ("", SKOS, "body", "is not XML"),
        ("  \n\n", OUTLINE, "body", "no keyword"),
        (b"\xff\xfe", OUTLINE, "body", "UTF-8"),
        ("a\n  !!!\n", OUTLINE, "lines.2.name", "letter"),
        ("title,parent\na,b\n", CSV, "lines.1", "name"),
        ("name,id\na,1\nb,1\n", CSV, "lines.3.id", "line 2"),
        ("id,name,parent_id\n1,a,2\n2,b,1\n", CSV, "lines.2.parent_id", "itself"),
        ("id,name,parent_id\n1,a,9\n", CSV, "lines.2.parent_id", "not in the file"),
        ('name\n"a\n', CSV, "lines.1", "CSV"),
        ("name,id\na\n", CSV, "lines.2", "2 fields"),
        ('{"kind":"keyword","name":"a","parent_ref":"x"}', JSONL, "lines.1.parent_ref", "no line above"),
        ('{"kind":"info","content":"a","links":[{"ref":"x"}]}', JSONL, "lines.1.links.0.ref", "no line"),
        (
            '{"kind":"info","content":"a","links":[{"keyword_id":"x"}]}',
            JSONL,
            "lines.1.links.0.keyword_id",
            "no keyword",
        ),
        ('{"kind":"keyword","name":"a"}\n{"kind":"info","content":" "}', JSONL, "lines.2.content", "blank"),
        ("{", JSONL, "lines.1", "JSON"),
    ],
)
async def test_an_invalid_file_is_refused_as_a_whole(
    api: httpx.AsyncClient, text: str | bytes, media_type: str, field: str, said: str
) -> None:
    refused = await import_file(api, text, media_type)

    assert refused.status_code == 422, refused.text
    error = refused.json()["errors"][0]
    assert (error["field"], said in error["message"]) == (field, True), error
    assert (await api.get("/api/operations")).json()["count"] == 0


async def test_an_alias_that_is_another_name_is_a_conflict_that_names_the_line(api: httpx.AsyncClient) -> None:
    refused = await import_file(api, "Go | golang\nRust | Go", OUTLINE)

    assert (refused.status_code, "lines.2" in refused.json()["detail"]) == (409, True)
    assert await list_names(api, "/api/keywords") == []


async def test_other_content_types_and_too_many_rows_are_refused(api: httpx.AsyncClient) -> None:
    assert (await import_file(api, "a", "application/json")).status_code == 415
    assert (await import_file(api, "a", OUTLINE, format="turtle")).status_code == 422
    too_many = await import_file(api, "a\n" * 100_001, OUTLINE)
    assert (too_many.status_code, "100000" in too_many.json()["detail"]) == (413, True)
