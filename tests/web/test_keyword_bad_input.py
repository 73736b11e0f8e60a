"""Bad input on keywords and infos: each gets a documented 4xx that names the error, and nothing changes."""

import json
from typing import Any

import httpx
import pytest

from tests.web.trees import create_info, create_keyword, read_everything

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
UNKNOWN = "7f1c2b9e-6a52-4f0c-ac3e-1c7a52b5d0aa"


async def create_tree(api: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    """Make a small tree: top > middle > leaf, and other, with an info."""
    top = await create_keyword(api, "top")
    middle = await create_keyword(api, "middle", top["id"])
    leaf = await create_keyword(api, "leaf", middle["id"], aliases=["blade"])
    other = await create_keyword(api, "other")
    kept = await create_info(api, "kept", leaf["id"])
    return {"top": top, "middle": middle, "leaf": leaf, "other": other, "info": kept}


async def check_refused(
    api: httpx.AsyncClient, path: str, good: dict[str, Any], sent: dict[str, Any], field: str
) -> None:
    """Send a row alone and in a batch: both are refused with the field, and nothing changes."""
    before = await read_everything(api)

    alone = await api.post(path, content=json.dumps(sent), headers=JSON)
    in_batch = await api.post(f"{path}/batch", content=json.dumps({"items": [good, sent]}), headers=JSON)

    for response, named in ((alone, field), (in_batch, f"items.1.{field}")):
        assert response.status_code == 422
        fields = [error["field"] for error in response.json()["errors"]]
        assert any(name == named or name.startswith(f"{named}.") for name in fields), fields
    assert await read_everything(api) == before


def fill_in_ids(text: str, made: dict[str, dict[str, Any]]) -> str:
    for name, row in made.items():
        text = text.replace(f"<{name}>", row["id"])
    return text


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        # A cycle.
        ("POST", "/api/keywords/<top>/move", {"new_parent_id": "<leaf>"}, 409),
        ("POST", "/api/keywords/<top>/move", {"new_parent_id": "<top>"}, 409),
        # Into its own subtree, and into itself.
        ("POST", "/api/keywords/<top>/merge", {"into": "<leaf>"}, 409),
        ("POST", "/api/keywords/<top>/merge", {"into": "<top>"}, 409),
        # What there is not.
        ("POST", "/api/keywords", {"name": "x", "parent_id": UNKNOWN}, 422),
        ("POST", "/api/keywords/<top>/move", {"new_parent_id": UNKNOWN}, 422),
        ("POST", "/api/keywords/<top>/merge", {"into": UNKNOWN}, 422),
        ("POST", "/api/infos", {"content": "x", "keyword_ids": ["<top>", UNKNOWN]}, 422),
        ("DELETE", "/api/keywords/<leaf>/aliases/stem", None, 404),
        ("DELETE", "/api/infos/<info>/keywords/<top>", None, 404),
        # An alias that is another keyword's name.
        ("POST", "/api/keywords/<top>/aliases", {"alias": "ＯＴＨＥＲ"}, 409),
        ("POST", "/api/keywords", {"name": "new", "aliases": ["Leaf"]}, 409),
        ("POST", "/api/keywords/batch", {"items": [{"name": "new", "aliases": ["Leaf"]}]}, 409),
        ("POST", "/api/keywords/batch", {"items": [{"name": "new"}, {"name": "x", "aliases": ["NEW"]}]}, 409),
        ("PATCH", "/api/keywords/<top>", {"aliases": ["other"]}, 409),
        # The root is neither deleted, moved nor merged away.
        ("DELETE", "/api/keywords/root", None, 409),
        ("DELETE", "/api/keywords/root?cascade=true", None, 409),
        ("POST", "/api/keywords/root/move", {"new_parent_id": "<top>"}, 409),
        ("POST", "/api/keywords/root/merge", {"into": "<top>"}, 409),
        # It has children, or infos.
        ("DELETE", "/api/keywords/<top>", None, 409),
        ("DELETE", "/api/keywords/<leaf>?info_policy=forbid", None, 409),
        ("DELETE", "/api/keywords/<leaf>?info_policy=burn", None, 422),
        ("PATCH", "/api/keywords/root", {"name": "!!!"}, 422),
        ("DELETE", "/api/keywords/<leaf>?cascade=perhaps", None, 422),
        # An impossible version.
        ("PATCH", "/api/keywords/<top>", {"name": "x", "version": 0}, 422),
        ("PATCH", "/api/keywords/<top>", {"name": "x", "version": 7}, 409),
        ("POST", "/api/keywords/<leaf>/move", {"new_parent_id": "<top>", "version": 7}, 409),
        ("PATCH", "/api/infos/<info>", {"content": "x", "version": 7}, 409),
        # Relations and pages.
        ("PUT", "/api/infos/<info>/keywords/<top>", {"relation": "FRIEND"}, 422),
        ("PUT", "/api/infos/<info>/keywords/<top>", {"created_by": " "}, 422),
        ("GET", "/api/keywords/<leaf>/infos?relation=FRIEND", None, 422),
        ("GET", "/api/keywords/<leaf>/infos?page=-1", None, 422),
        ("GET", "/api/keywords/<leaf>/infos?size=1001", None, 422),
        ("GET", "/api/keywords/<leaf>/infos?sort=size", None, 422),
        ("GET", "/api/keywords/<leaf>/subtree?depth=-1", None, 422),
        ("GET", "/api/keywords/<leaf>?colour=red", None, 422),
        ("GET", "/api/infos?cursor=x", None, 422),
    ],
)
async def test_an_impossible_change_is_refused_and_changes_nothing(
    api: httpx.AsyncClient, method: str, path: str, body: dict[str, Any] | None, status: int
) -> None:
    made = await create_tree(api)
    before = await read_everything(api)

    content = None if body is None else fill_in_ids(json.dumps(body), made)
    headers = None if body is None else JSON
    response = await api.request(method, fill_in_ids(path, made), content=content, headers=headers)

    assert response.status_code == status, response.text
    assert response.json()["detail"]
    if status == 422:
        assert response.json()["errors"][0]["field"]
    assert await read_everything(api) == before


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": " \u3000"}, "name"),
        ({"name": "!!!"}, "name"),
        ({"name": 5}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "x", "aliases": ["fine", ""]}, "aliases.1"),
        ({"name": "x", "aliases": ["?!"]}, "aliases.0"),
        ({"name": "x", "aliases": [f"alias {number}" for number in range(10_000)]}, "aliases"),
        ({"name": "x", "aliases": "y"}, "aliases"),
        ({"name": "x", "parent_id": ""}, "parent_id"),
        ({"name": "x", "parent_id": UNKNOWN}, "parent_id"),
        ({"name": "x", "description": "y" * 4097}, "description"),
        ({"name": "x", "description": None}, "description"),
        ({"name": "x", "metadata": []}, "metadata"),
        ({"name": "x", "metadata": {"a": float("nan")}}, "metadata"),
        ({"name": "x", "metadata": {"a": {"b": "c\0"}}}, "metadata"),
        ({"name": "x", "metadata": {"\ud800": 1}}, "metadata"),
        ({"name": "x", "metadata": {"a": "y" * 70_000}}, "metadata"),
        ({"name": "x", "scopes": ["everyone"]}, "scopes.0"),
        ({"name": "x", "owner": "team:web"}, "owner"),
        ({"name": "x", "llm_auto_place": "no"}, "llm_auto_place"),
    ],
)
async def test_an_invalid_keyword_is_refused_by_field(api: httpx.AsyncClient, sent: dict[str, Any], field: str) -> None:
    await check_refused(api, "/api/keywords", {"name": "good"}, sent, field)


@pytest.mark.parametrize("integer", ["9223372036854775808", "-9223372036854775809", "1" + "0" * 30, "1" + "0" * 5_000])
@pytest.mark.parametrize("kind", ["keyword batch", "info patch", "plan"])
async def test_an_integer_of_more_than_64_bits_is_refused_and_not_rounded(
    api: httpx.AsyncClient, kind: str, integer: str
) -> None:
    made = await create_tree(api)
    before = await read_everything(api)
    deep = f'{{"a":[1,{{"b":{integer}}}]}}'
    method, path, sent, field = {
        "keyword batch": ("POST", "/api/keywords/batch", '{"items":[{"name":"x","metadata":%s}]}', "items.0.metadata"),
        "info patch": ("PATCH", f"/api/infos/{made['info']['id']}", '{"metadata":%s}', "metadata"),
        "plan": ("POST", "/api/keywords/reorganize/apply", '{"plan":%s}', "plan.a"),
    }[kind]

    response = await api.request(method, path, content=sent % deep, headers=JSON)

    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)
    assert await read_everything(api) == before


async def test_the_longest_integers_and_long_digits_in_a_text_are_kept_exactly(api: httpx.AsyncClient) -> None:
    metadata = {"most": 2**63 - 1, "least": -(2**63), "text": "1" * 30, "real": 0.1234567890123456789}

    made = await create_keyword(api, "x" + "1" * 30, metadata=metadata)

    assert (made["metadata"], made["name"]) == (metadata, "x" + "1" * 30)


async def test_a_number_too_large_for_the_log_is_refused_in_every_format(api: httpx.AsyncClient) -> None:
    # NaN makes the server use its other parser, which takes the second `metadata`.
    twice = b'{"name":"x","metadata":{"a":NaN},"metadata":{"a":%d}}' % (10**30)

    response = await api.post("/api/keywords", content=twice, headers=JSON)

    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "metadata")


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({}, "content"),
        ({"content": ""}, "content"),
        ({"content": " \n\u3000"}, "content"),
        ({"content": "a\0b"}, "content"),
        ({"content": "x", "source": "y" * 2049}, "source"),
        ({"content": "x", "metadata": {"a": float("inf")}}, "metadata"),
        ({"content": "x", "keyword_ids": [UNKNOWN]}, "keyword_ids.0"),
        ({"content": "x", "keyword_ids": ["root", ""]}, "keyword_ids.1"),
        ({"content": "x", "keyword_ids": ["root"] * 1001}, "keyword_ids"),
        ({"content": "x", "keyword_ids": "root"}, "keyword_ids"),
        ({"content": "x", "created_by": ""}, "created_by"),
        ({"content": "x", "created_by": "y" * 201}, "created_by"),
        ({"content": "x", "auto_link": 1}, "auto_link"),
        ({"content": "x", "scopes": ["user:"]}, "scopes.0"),
        ({"content": "x", "relation": "PRIMARY"}, "relation"),
    ],
)
async def test_an_invalid_info_is_refused_by_field(api: httpx.AsyncClient, sent: dict[str, Any], field: str) -> None:
    await check_refused(api, "/api/infos", {"content": "good"}, sent, field)


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([], "items"),
        ([{"name": "x"}] * 1001, "items"),
        ([{"name": "x", "parent_ref": "later"}, {"name": "y", "ref": "later"}], "items.0.parent_ref"),
        ([{"name": "x", "parent_ref": "nowhere"}], "items.0.parent_ref"),
        ([{"name": "x", "ref": "r"}, {"name": "y", "ref": "r"}], "items.1.ref"),
        ([{"name": "x", "ref": "r"}, {"name": "y", "parent_ref": "r", "parent_id": "root"}], "items.1.parent_ref"),
        ([{"name": "x", "ref": "r", "parent_ref": "r"}], "items.0.parent_ref"),
        ([{"name": "x", "llm_auto_place": True}], "items.0.llm_auto_place"),
    ],
)
async def test_an_invalid_batch_is_refused_as_a_whole(
    api: httpx.AsyncClient, items: list[dict[str, Any]], field: str
) -> None:
    before = await read_everything(api)

    response = await api.post("/api/keywords/batch", json={"items": items})

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field
    assert await read_everything(api) == before


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "?!"}, "name"),
        ({"parent_id": "root"}, "parent_id"),
        ({"owner": "user:chen"}, "owner"),
        ({"scopes": []}, "scopes"),
        ({"aliases": [f"a{number}" for number in range(201)]}, "aliases"),
        *(({name: None}, name) for name in ("name", "aliases", "description", "metadata", "scopes")),
    ],
)
async def test_an_invalid_patch_is_refused_by_field(api: httpx.AsyncClient, patch: dict[str, Any], field: str) -> None:
    made = await create_keyword(api, "Python")
    before = await read_everything(api)

    response = await api.patch(f"/api/keywords/{made['id']}", json=patch)

    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)
    assert await read_everything(api) == before


async def test_a_keyword_has_two_hundred_aliases_at_most(api: httpx.AsyncClient) -> None:
    made = await create_keyword(api, "Python", aliases=[f"py {number}" for number in range(200)])
    before = await read_everything(api)

    response = await api.post(f"/api/keywords/{made['id']}/aliases", json={"alias": "one more"})

    assert response.status_code == 409
    assert await read_everything(api) == before
