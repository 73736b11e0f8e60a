"""What an import of keywords does not keep is counted, and a round trip loses nothing else."""

from typing import Any

import httpx
import orjson
import pytest

from tests.web.tree_files import HEAD, JSONL, OUTLINE, SKOS, TYPES, import_file, list_paths, make_concept
from tests.web.trees import create_info, create_keyword

pytestmark = pytest.mark.anyio


async def test_two_concepts_of_one_name_and_parent_become_one_and_are_counted(api: httpx.AsyncClient) -> None:
    second = """<skos:Concept rdf:about="http://x/2"><skos:prefLabel>APPLE</skos:prefLabel><skos:altLabel>Malus</skos:altLabel>
      <skos:definition>A company.</skos:definition><skos:broader rdf:resource="http://x/0"/></skos:Concept>"""
    document = (
        HEAD
        + make_concept("http://x/0", "things")
        + make_concept("http://x/1", "apple", "http://x/0")
        + second
        + make_concept("http://x/3", "pie", "http://x/2")
        + make_concept("http://x/4", "apple")
        + "</rdf:RDF>"
    )

    done, again = [(await import_file(api, document, SKOS)).json() for _ in range(2)]

    assert await list_paths(api) == {
        " > things": [],
        " > things > apple": ["Malus"],
        " > things > apple > pie": [],
        " > apple": [],
    }
    assert done["keywords"] == 4
    assert done["dropped"] == [
        {"what": "aliases", "why": "duplicate", "count": 1},
        {"what": "keywords", "why": "differs", "count": 1},
        {"what": "keywords", "why": "duplicate", "count": 1},
    ]
    assert (again["operation_ids"], again["dropped"]) == ([], done["dropped"])


async def test_keywords_of_one_path_are_counted_across_operations_and_in_a_retry(api: httpx.AsyncClient) -> None:
    lines = "\n".join(["a", *(f"keyword {number}" for number in range(1_500)), "a | b", "A"])
    headers = {"Content-Type": OUTLINE, "Idempotency-Key": "k"}

    done, again = [(await api.post("/api/keywords/import", content=lines, headers=headers)).json() for _ in range(2)]

    assert {(item["what"], item["why"]): item["count"] for item in done["dropped"]} == {
        ("keywords", "duplicate"): 2,
        ("aliases", "duplicate"): 1,
    }
    assert again == done


async def test_concepts_that_are_not_in_the_file_are_counted(api: httpx.AsyncClient) -> None:
    document = f"""{HEAD}<skos:ConceptScheme rdf:about="u:0"><skos:prefLabel>All</skos:prefLabel>
      <skos:hasTopConcept rdf:resource="u:1"/><skos:hasTopConcept rdf:resource="u:8"/></skos:ConceptScheme>
      <skos:Concept rdf:about="u:1"><skos:prefLabel>a</skos:prefLabel>
      <skos:narrower rdf:resource="u:2"/><skos:narrower rdf:resource="u:9"/><skos:broader>u:7</skos:broader>
      </skos:Concept>
      <skos:Concept rdf:about="u:2" skos:prefLabel="b"><skos:inScheme rdf:resource="u:0"/>
      <skos:topConceptOf rdf:resource="u:6"/>
      </skos:Concept>
      <rdf:Description rdf:about="u:3"><skos:prefLabel>no concept</skos:prefLabel><skos:broader rdf:resource="u:1"/>
      </rdf:Description></rdf:RDF>"""

    done = (await import_file(api, document, SKOS)).json()

    assert await list_paths(api) == {" > a": [], " > a > b": []}
    assert {(item["what"], item["why"]): item["count"] for item in done["dropped"]} == {
        ("skos:narrower", "not_in_file"): 1,
        ("skos:hasTopConcept", "not_in_file"): 1,
        ("skos:broader", "no_place"): 2,
        ("skos:prefLabel", "no_place"): 2,
        ("skos:inScheme", "no_place"): 2,
    }


async def test_labels_of_any_language_and_kind_become_names(api: httpx.AsyncClient) -> None:
    document = f"""{HEAD.replace("<rdf:RDF ", '<rdf:RDF xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#" ')}
      <skos:Concept rdf:about="u:1"><skos:prefLabel xml:lang="ja">ネコ</skos:prefLabel><rdfs:label>cat</rdfs:label>
      <skos:altLabel xml:lang="de">Katze</skos:altLabel><skos:altLabel xml:lang="nl">Katze</skos:altLabel>
      <skos:hiddenLabel>CAT</skos:hiddenLabel></skos:Concept></rdf:RDF>"""

    done = (await import_file(api, document, SKOS)).json()

    assert await list_paths(api) == {" > ネコ": ["cat", "Katze"]}
    assert done["dropped"] == [{"what": "aliases", "why": "duplicate", "count": 1}]


async def test_what_differs_from_what_is_there_stays_and_is_counted(api: httpx.AsyncClient) -> None:
    await create_keyword(api, "Go", description="A game.", metadata={"a": 1})
    await create_keyword(api, "Rust", description="A language.")
    await create_info(api, "A text.", source="here")
    lines = [
        {"kind": "keyword", "name": "Go", "description": "A language.", "metadata": {"b": 2}},
        {"kind": "keyword", "name": "Rust", "description": "A language."},
        {"kind": "info", "content": "A text.", "source": "there"},
        {"kind": "info", "content": "New.", "source": "here"},
        {"kind": "info", "content": "New."},
    ]

    done = (await import_file(api, b"\n".join(map(orjson.dumps, lines)), JSONL)).json()

    assert (done["keywords"], done["changed"], done["infos"]) == (0, 1, 1)
    assert done["dropped"] == [
        {"what": "infos", "why": "differs", "count": 1},
        {"what": "infos", "why": "duplicate", "count": 1},
        {"what": "keywords", "why": "differs", "count": 1},
    ]
    go = (await api.get("/api/keywords/Go")).json()
    assert (go["description"], go["metadata"]) == ("A game.", {"a": 1, "b": 2})


NAMES = [
    '"quoted", with commas',
    "\\backslash",
    "\\| pipe",
    "| pipe first",
    "trailing\\",
    "a | b",
    "- item",
    "苹果，\u201c公司\u201d",
    "<b>&amp;</b>",
    "=1+1",
    "# heading",
]
SPACED = [
    "two\nlines",
    "carriage\rreturn",
    "a\ttab",
    "  leading",
    "trailing ",
    "wide\u3000space",
    "line\u2028separator",
]


async def list_rows(api: httpx.AsyncClient, *fields: str, **params: str) -> list[Any]:
    """Return each keyword by the names from the top down to it, with some of its fields."""
    lines = (await api.get("/api/keywords/export", params=params)).text.split("\n")
    paths: dict[str, list[str]] = {}
    rows = []
    for row in (row for row in map(orjson.loads, filter(None, lines)) if row["kind"] == "keyword"):
        paths[row["ref"]] = [*paths.get(row.get("parent_ref"), ()), row["name"]]
        rows.append([paths[row["ref"]], *(row[name] for name in fields)])
    return rows


@pytest.mark.parametrize("form", TYPES)
async def test_a_round_trip_keeps_names_parents_aliases_and_homonyms(api: httpx.AsyncClient, form: str) -> None:
    names = [*NAMES, *(SPACED if form in {"jsonl", "csv"} else [])]
    above = "root"
    for index, name in enumerate(names):
        aliases = [f"{index}\\", f"{index} | x", f"\\{index} y"]
        made = await create_keyword(api, name, above, aliases=aliases, description=f'{name}\r\n\t"{index}"')
        await create_keyword(api, "Java", made["id"], description=f"homonym {index}")
        above = made["id"] if index % 3 else "root"

    exported = await api.get("/api/keywords/export", params={"format": form})
    first = await import_file(api, exported.content, TYPES[form], account="other")
    again = await import_file(api, exported.content, TYPES[form], account="other")
    here = await import_file(api, exported.content, TYPES[form])

    assert exported.headers["content-type"].partition(";")[0] == TYPES[form]
    assert first.status_code == 200, first.text
    assert (first.json()["keywords"], first.json()["changed"], first.json()["dropped"]) == (2 * len(names), 0, [])
    for nothing in (again.json(), here.json()):
        assert (nothing["operation_ids"], nothing["import_id"], nothing["dropped"]) == ([], None, [])
    fields = ["aliases"] if form == "outline" else ["aliases", "description"]
    assert await list_rows(api, *fields, account="other") == await list_rows(api, *fields)


@pytest.mark.parametrize("form", ["skos", "outline"])
async def test_skos_and_outline_keep_white_space_in_names_as_documented(api: httpx.AsyncClient, form: str) -> None:
    for name in SPACED:
        await create_keyword(api, name)

    exported = (await api.get("/api/keywords/export", params={"format": form})).content
    done = (await import_file(api, exported, TYPES[form], account="other")).json()
    here = (await import_file(api, exported, TYPES[form])).json()

    kept = [name.strip() if form == "skos" else " ".join(name.split()) for name in SPACED]
    assert [path[-1] for (path,) in await list_rows(api, account="other")] == kept
    assert done["dropped"] == []
    assert here["operation_ids"] == []


async def create_twins(api: httpx.AsyncClient) -> tuple[str, str]:
    """Create two keywords of one path, of which the second has texts, and return their ids."""
    first = await create_keyword(api, "Java")
    second = await create_keyword(api, "JAVA", description="an island", aliases=["爪哇"])
    await create_keyword(api, "JVM", first["id"])
    await create_keyword(api, "Jakarta", second["id"])
    await create_info(api, "volcanoes", second["id"])
    return first["id"], second["id"]


async def test_keywords_of_one_name_under_one_parent_stay_apart_in_a_round_trip(api: httpx.AsyncClient) -> None:
    await create_twins(api)
    before = await list_rows(api, "description", "aliases")

    exported = (await api.get("/api/keywords/export")).content
    here = (await import_file(api, exported, JSONL)).json()
    first = (await import_file(api, exported, JSONL, account="other")).json()
    again = (await import_file(api, exported, JSONL, account="other")).json()

    assert (first["keywords"], first["infos"], first["links"]) == (4, 1, 1)
    for done in (here, first, again):
        assert done["dropped"] == []
    assert here["operation_ids"] == again["operation_ids"] == []
    assert await list_rows(api, "description", "aliases") == before
    assert await list_rows(api, "description", "aliases", account="other") == before


async def test_a_deleted_keyword_comes_back_beside_its_namesake(api: httpx.AsyncClient) -> None:
    first, second = await create_twins(api)
    exported = (await api.get("/api/keywords/export")).content
    before = await list_rows(api, "description")
    await api.delete(f"/api/keywords/{first}", params={"cascade": True})

    done = (await import_file(api, exported, JSONL)).json()

    assert (done["keywords"], done["changed"], done["dropped"]) == (2, 0, [])
    assert sorted(await list_rows(api, "description")) == sorted(before)
    assert (await api.get(f"/api/keywords/{second}")).json()["version"] == 1


async def test_a_keyword_below_a_hidden_one_is_matched_by_its_id(api: httpx.AsyncClient) -> None:
    hidden = await create_keyword(api, "hidden", user_id="li")
    await create_keyword(api, "Java", hidden["id"], user_id="chen")
    await api.patch(f"/api/keywords/{hidden['id']}", json={"scopes": ["user:li"], "user_id": "li"})
    await create_keyword(api, "Java", user_id="chen", description="an island")
    chen = {"user_id": "chen"}

    exported = (await api.get("/api/keywords/export", params=chen)).content
    done = (await import_file(api, exported, JSONL, **chen)).json()

    assert (done["operation_ids"], done["dropped"]) == ([], [])
