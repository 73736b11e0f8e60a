"""Sessions over HTTP: the requests that several test files share."""

from typing import Any

import httpx

COMMIT = "/api/context/sessions/commit"
NODES = "/api/context/nodes"


def user_messages(*texts: str, prefix: str = "m", **fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 -- any field
    """Return messages of a user with these texts, each with an id."""
    return [
        {"role": "user", "content": text, "message_id": f"{prefix}-{number}", **fields}
        for number, text in enumerate(texts, 1)
    ]


async def commit_session(
    api: httpx.AsyncClient,
    session_id: str,
    *texts: str,
    status: int = 201,
    **fields: Any,  # noqa: ANN401 -- any field
) -> dict[str, Any]:
    """Commit a session of a user's messages, check the status, and return the answer."""
    body = {"session_id": session_id, "messages": user_messages(*texts), **fields}
    response = await api.post(COMMIT, json=body)
    assert response.status_code == status, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def get_node(api: httpx.AsyncClient, uri: str, **ids: str) -> dict[str, Any]:
    """Return the whole node at a URI."""
    response = await api.get(NODES, params={"uri": uri, **ids})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def search_memories(api: httpx.AsyncClient, q: str, **params: Any) -> list[dict[str, Any]]:  # noqa: ANN401 -- any value
    """Return the blocks that a search finds, without the standing instructions that every search shows."""
    response = await api.get("/api/context/search", params={"q": q, **params})
    assert response.status_code == 200, response.text
    blocks: list[dict[str, Any]] = response.json()["blocks"]
    return [block for block in blocks if not block["standing"]]
