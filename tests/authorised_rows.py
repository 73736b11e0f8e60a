"""Rows for the requests of the authorisation matrix, created over HTTP with one key."""

from typing import Any

import httpx

from knowhub.bootstrap import Hub
from knowhub.identity.model import KeyHolder
from tests.authorisation import CONTEXT, INFOS, KEYWORDS, KNOWLEDGE, RESOURCE, Ids, RouteRequest
from tests.keys import ROOT_KEY, issue_key


class RowMaker:
    """Creates rows that one key owns and the project `atlas` sees, and sends requests on them."""

    def __init__(
        self, api: httpx.AsyncClient, hub: Hub, owner: str, scopes: tuple[str, ...] = ("project:atlas",)
    ) -> None:
        self.api = api
        self.hub = hub
        self._owner = owner
        self._scopes = scopes
        self._count = 0

    async def rows(self, path: str, row: RouteRequest) -> dict[str, str]:
        """Create new rows for a request, and return their ids."""
        wanted = {name for name in _MADE if f"{{{name}" in path or name in row.uses}
        ids: dict[str, str] = {}
        for name, make in _MADE.items():
            if name in wanted:
                ids |= await make(self, ids)
        return ids

    async def ask(self, method: str, path: str, row: RouteRequest, ids: Ids, key: str | None) -> httpx.Response:
        """Send a valid request, with a key or without."""
        body = None if row.body is None else row.body(ids)
        lines = isinstance(body, bytes)
        url = path.replace(":path}", "}").format(**ids)
        return await self.api.request(
            method,
            f"{url}?{row.query.format(**ids)}" if row.query else url,
            json=None if lines else body,
            content=body if lines else None,
            headers=headers(key) | ({"Content-Type": "application/x-ndjson"} if lines else {}),
        )

    async def knowledge(self, _ids: Ids) -> dict[str, str]:
        row = await self._save(
            KNOWLEDGE, task="matrix", content=f"of the matrix, {self._number()}", scopes=self._scopes
        )
        return {"knowledge_id": row["id"], "operation_id": row["operation_id"]}

    async def keyword(self, _ids: Ids) -> dict[str, str]:
        number = self._number()
        named = {"name": "matrix tree", "aliases": [f"alias {number}"], "llm_auto_place": False}
        row = await self._save(KEYWORDS, **named, scopes=self._scopes, allow_duplicate=True)
        return {"keyword_id": row["id"], "alias": f"alias {number}"}

    async def other_keyword(self, _ids: Ids) -> dict[str, str]:
        named = {"name": f"another, {self._number()}", "llm_auto_place": False}
        return {
            "other_keyword_id": (await self._save(KEYWORDS, **named, scopes=self._scopes, allow_duplicate=True))["id"]
        }

    async def info(self, ids: Ids) -> dict[str, str]:
        linked = [ids["keyword_id"]] if "keyword_id" in ids else []
        text = f"of the matrix, {self._number()}"
        return {"info_id": (await self._save(INFOS, content=text, keyword_ids=linked, scopes=self._scopes))["id"]}

    async def resource(self, _ids: Ids) -> dict[str, str]:
        named = f"matrix/of/{self._number():04}"
        return {"resource_id": (await self._save(RESOURCE, id=named, body="x", scopes=self._scopes))["id"]}

    async def fresh(self, _ids: Ids) -> dict[str, str]:
        return {"fresh": f"matrix/fresh/{self._number():04}"}

    async def memory(self, _ids: Ids) -> dict[str, str]:
        named = f"matrix-{self._number():04}"
        messages = [{"role": "user", "content": f"of the matrix, {named}"}]
        row = await self._save(f"{CONTEXT}/sessions/commit", session_id=named, messages=messages)
        return {"memory_uri": row["archive"]["archive_uri"], "session_id": named}

    async def hook(self, _ids: Ids) -> dict[str, str]:
        return {"host": "claude", "event": "UserPromptSubmit"}

    async def note(self, _ids: Ids) -> dict[str, str]:
        """Create two memories with an edge from the first to the second."""
        named = f"matrix-{self._number():04}"
        new = {"category": "events", "content": "of the matrix"}
        uris = [(await self._save(f"{CONTEXT}/nodes", **new, name=f"{named}-{end}"))["uri"] for end in ("a", "b")]
        edge = {"from_uri": uris[0], "to_uri": uris[1]}
        assert (await self.api.put(f"{CONTEXT}/relations", json=edge, headers=headers(self._owner))).status_code == 200
        return dict(zip(("note_uri", "other_note_uri"), uris, strict=True))

    async def event(self, _ids: Ids) -> dict[str, str]:
        return {"event_id": f"matrix-event-{self._number():04}"}

    async def snapshot(self, _ids: Ids) -> dict[str, str]:
        return {"ts": (await self._post_as_root("/api/maintenance/snapshots"))["ts"]}

    async def job(self, _ids: Ids) -> dict[str, str]:
        return {"job_id": (await self._post_as_root("/api/maintenance/reindex?wait=false"))["job_id"]}

    async def key(self, _ids: Ids) -> dict[str, str]:
        return {"key_id": (await issue_key(self.hub, KeyHolder(f"matrix-{self._number()}"))).key.key_id}

    async def _save(self, path: str, **body: object) -> dict[str, Any]:
        answer = await self.api.post(path, json=body, headers=headers(self._owner))
        assert answer.status_code == 201, answer.text
        row: dict[str, Any] = answer.json()
        return row

    async def _post_as_root(self, path: str) -> dict[str, str]:
        answer = await self.api.post(path, headers=headers(ROOT_KEY))
        result: dict[str, str] = answer.json()
        # A job of its kind may run still, which is one as well.
        assert answer.status_code in {200, 201, 202, 409}, answer.text
        return result

    def _number(self) -> int:
        self._count += 1
        return self._count


_MADE = {
    "knowledge_id": RowMaker.knowledge,
    "operation_id": RowMaker.knowledge,
    "keyword_id": RowMaker.keyword,
    "other_keyword_id": RowMaker.other_keyword,
    "info_id": RowMaker.info,
    "resource_id": RowMaker.resource,
    "fresh": RowMaker.fresh,
    "memory_uri": RowMaker.memory,
    "session_id": RowMaker.memory,
    "host": RowMaker.hook,
    "note_uri": RowMaker.note,
    "other_note_uri": RowMaker.note,
    "event_id": RowMaker.event,
    "ts": RowMaker.snapshot,
    "job_id": RowMaker.job,
    "key_id": RowMaker.key,
}


def headers(key: str | None) -> dict[str, str]:
    """Return the headers of a request with a key, or without."""
    return {"X-Request-ID": "the-same"} | ({} if key is None else {"X-API-Key": key})
