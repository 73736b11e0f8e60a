"""Keywords and infos made over HTTP, and all that there is of them, for tests that hold one against the other."""

from typing import Any

import httpx


async def keyword(api: httpx.AsyncClient, name: str, parent_id: str = "root", **fields: object) -> dict[str, Any]:
    """Create a keyword and return it as it was answered."""
    response = await api.post(
        "/api/keywords", json={"name": name, "parent_id": parent_id, "allow_duplicate": True, **fields}
    )
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def info(api: httpx.AsyncClient, content: str, *keyword_ids: str, **fields: object) -> dict[str, Any]:
    """Save an info that is linked to these keywords, and return it as it was answered."""
    response = await api.post("/api/infos", json={"content": content, "keyword_ids": list(keyword_ids), **fields})
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def names(api: httpx.AsyncClient, path: str, **params: str) -> list[str]:
    """Return the names, or the contents, of a list's rows in order."""
    response = await api.get(path, params=params)
    assert response.status_code == 200, response.text
    return [result.get("name") or result["content"] for result in response.json()["results"]]


async def everything(api: httpx.AsyncClient) -> dict[str, Any]:
    """Return all that can be read: every operation, the whole tree, every info with its links."""
    infos = (await api.get("/api/infos", params={"limit": 1000})).json()["results"]
    return {
        "operations": (await api.get("/api/operations", params={"limit": 1000})).json()["results"],
        "tree": (await api.get("/api/keywords/root/subtree")).json(),
        "infos": infos,
        "links": [(await api.get(f"/api/infos/{item['id']}/keywords")).json() for item in infos],
    }


async def undo(api: httpx.AsyncClient, operation_id: str) -> httpx.Response:
    return await api.post(f"/api/operations/{operation_id}/undo", json={})


def stored(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a row as reads answer it: less what only the answer of a write has."""
    return {name: value for name, value in answer.items() if name not in {"operation_id", "degraded", "decided"}}


def shortened(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a keyword as paths, candidates and the keywords of an info show it: without its children."""
    return {name: value for name, value in stored(answer).items() if name != "children"}
