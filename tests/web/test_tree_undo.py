"""Undo in a tree that several people hang things on."""

import httpx
import pytest

pytestmark = pytest.mark.anyio

KEYWORDS, INFOS, OPERATIONS = "/api/keywords", "/api/infos", "/api/operations"


async def create(api: httpx.AsyncClient, path: str, **body: object) -> dict[str, str]:
    answer = await api.post(path, json={"llm_auto_place": False, **body} if path == KEYWORDS else body)
    assert answer.status_code == 201, answer.text
    row: dict[str, str] = answer.json()
    return row


async def test_undo_of_a_chain_of_two_thousand_keywords_is_not_quadratic(api: httpx.AsyncClient) -> None:
    items = [{"name": f"level {number}", "ref": str(number)} for number in range(1000)]
    for number, item in enumerate(items[1:]):
        item["parent_ref"] = str(number)
    first = (await api.post(f"{KEYWORDS}/batch", json={"items": items})).json()["results"]
    items[0]["parent_id"] = first[-1]["id"]
    second = (await api.post(f"{KEYWORDS}/batch", json={"items": items})).json()["results"]
    assert second[-1]["level"] == 2000
    gone = (await api.delete(f"{KEYWORDS}/{first[0]['id']}", params={"cascade": "true"})).json()["operation_id"]

    undone = await api.post(f"{OPERATIONS}/{gone}/undo")

    assert undone.status_code == 200
    assert (await api.get(f"{KEYWORDS}/{second[-1]['id']}")).json()["level"] == 2000


@pytest.mark.parametrize("end", ["merged away", "deleted"])
async def test_a_merge_cannot_be_undone_while_its_target_is_deleted(api: httpx.AsyncClient, end: str) -> None:
    source, target, other = [await create(api, KEYWORDS, name=name) for name in ("ma", "mb", "mc")]
    merge = (await api.post(f"{KEYWORDS}/{source['id']}/merge", json={"into": target["id"]})).json()["operation_id"]
    gone = (
        await api.post(f"{KEYWORDS}/{target['id']}/merge", json={"into": other["id"]})
        if end == "merged away"
        else await api.delete(f"{KEYWORDS}/{target['id']}")
    ).json()["operation_id"]

    refused = await api.post(f"{OPERATIONS}/{merge}/undo")

    assert refused.status_code == 409
    assert gone in refused.text
    for operation in (gone, merge):
        assert (await api.post(f"{OPERATIONS}/{operation}/undo")).status_code == 200
    for name, row in zip(("ma", "mb", "mc"), (source, target, other), strict=True):
        found = (await api.get(f"{KEYWORDS}/search", params={"q": name})).json()
        assert (found["status"], found["node"]["id"]) == ("matched", row["id"])


async def test_a_later_change_of_the_same_metadata_key_blocks_an_undo(api: httpx.AsyncClient) -> None:
    keyword = await create(api, KEYWORDS, name="u", metadata={"a": 1})
    path = f"{KEYWORDS}/{keyword['id']}"
    first = (await api.patch(path, json={"metadata": {"a": {"x": 1}}, "version": 1})).json()["operation_id"]
    second = (await api.patch(path, json={"metadata": {"a": {"x": 1, "y": 2}}, "version": 2})).json()["operation_id"]

    refused = await api.post(f"{OPERATIONS}/{first}/undo")

    assert refused.status_code == 409
    assert second in refused.text
    assert (await api.get(path)).json()["metadata"] == {"a": {"x": 1, "y": 2}}


@pytest.mark.parametrize("weaker_first", [True, False])
async def test_undo_keeps_the_stronger_of_two_links_to_one_keyword(api: httpx.AsyncClient, weaker_first: bool) -> None:
    items = [{"name": "first"}, {"name": "second"}]
    batch = (await api.post(f"{KEYWORDS}/batch", json={"items": items})).json()
    weak, strong = [row["id"] for row in batch["results"]][:: 1 if weaker_first else -1]
    info = await create(api, INFOS, content="linked twice", keyword_ids=[strong])
    linked = await api.put(f"{INFOS}/{info['id']}/keywords/{weak}", json={"relation": "EXAMPLE"})
    assert linked.is_success, linked.text

    undone = await api.post(f"{OPERATIONS}/{batch['operation_id']}/undo")

    assert undone.status_code == 200, undone.text
    links = (await api.get(f"{INFOS}/{info['id']}/keywords")).json()["results"]
    assert [(row["id"], row["relation"]) for row in links] == [("root", "PRIMARY")]
