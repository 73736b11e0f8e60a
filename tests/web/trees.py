"""Keywords and infos over HTTP: the requests that several test files share."""

from typing import Any

import httpx


async def create_keyword(
    api: httpx.AsyncClient, name: str, parent_id: str = "root", **fields: object
) -> dict[str, Any]:
    """Create a keyword and return the answer."""
    response = await api.post(
        "/api/keywords", json={"name": name, "parent_id": parent_id, "allow_duplicate": True, **fields}
    )
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def create_info(api: httpx.AsyncClient, content: str, *keyword_ids: str, **fields: object) -> dict[str, Any]:
    """Save an info linked to these keywords, and return the answer."""
    response = await api.post("/api/infos", json={"content": content, "keyword_ids": list(keyword_ids), **fields})
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def list_names(api: httpx.AsyncClient, path: str, **params: str) -> list[str]:
    """Return the names, or the contents, of a list's rows in order."""
    response = await api.get(path, params=params)
    assert response.status_code == 200, response.text
    return [result.get("name") or result["content"] for result in response.json()["results"]]


async def read_everything(api: httpx.AsyncClient) -> dict[str, Any]:
    """Return everything that can be read: operations, the whole tree, infos with their links."""
    infos = (await api.get("/api/infos", params={"limit": 1000})).json()["results"]
    return {
        "operations": (await api.get("/api/operations", params={"limit": 1000})).json()["results"],
        "tree": (await api.get("/api/keywords/root/subtree")).json(),
        "infos": infos,
        "links": [(await api.get(f"/api/infos/{item['id']}/keywords")).json() for item in infos],
    }


async def undo(api: httpx.AsyncClient, operation_id: str, **body: object) -> httpx.Response:
    return await api.post(f"/api/operations/{operation_id}/undo", json=body)


def strip_write_fields(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a row as reads answer it: without the fields that only writes answer."""
    return {name: value for name, value in answer.items() if name not in {"operation_id", "degraded", "decided"}}


def drop_children(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a keyword without its children, as paths, candidates and links show it."""
    return {name: value for name, value in strip_write_fields(answer).items() if name != "children"}
