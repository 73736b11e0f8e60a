"""Records by which the texts of a folder are found: one for each text, which names it as its resource."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from agent_tools import arguments, client
from agent_tools.integrations.documents import DocumentFolder

MAX_TEXT_CHARS: Final = 100_000
MAX_HITS: Final = 100
"""As many as the server answers a search with."""

_MAX_LEVELS: Final = 49
_PATH: Final = "/api/knowledge"


class DocumentIndex:
    """Finds texts of a folder by words and by meaning, as the server's search does.

    The records are the user's own, so every search and recall for the user finds them too. A record whose text is gone
    is harmless: whoever searches reads the text itself. Methods raise ToolFailure when the server refuses.
    """

    def __init__(self, folder: DocumentFolder) -> None:
        self._folder = folder

    async def save(self, path: Sequence[str], text: str, valid_to: str | None = None) -> None:
        """Make a text findable by these words, until `valid_to`. Without words it is not findable any more."""
        words = arguments.clean_text(text)[:MAX_TEXT_CHARS].strip()
        ids = await self._find(path)
        if not words:
            await self._delete(ids)
            return
        fields: dict[str, Any] = {
            "content": words,
            "valid_to": valid_to,
            "tags": {"document": self._digest(path), "folder": [self._digest(above) for above in _list_above(path)]},
            "resource_ids": [self._folder.make_id(path)],
        }
        if ids:
            await client.request("PATCH", f"{_PATH}/{client.encode_segment(ids[0])}", body=self._folder.caller | fields)
        else:
            await client.request("POST", _PATH, body=self._folder.caller | fields | {"dedup": False})
        await self._delete(ids[1:])

    async def extend(self, path: Sequence[str], valid_to: str) -> None:
        """Let a text be found until another time."""
        for record_id in await self._find(path):
            body = self._folder.caller | {"valid_to": valid_to}
            await client.request("PATCH", f"{_PATH}/{client.encode_segment(record_id)}", body=body)

    async def delete(self, path: Sequence[str]) -> None:
        """Let a text be found no more."""
        await self._delete(await self._find(path))

    async def search(self, prefix: Sequence[str], query: str) -> dict[tuple[str, ...], float]:
        """Return the texts below a path that are about a question, best first, with their relevance from 0 to 1."""
        words = arguments.clean_query(query)
        if not words:
            return {}
        params: dict[str, str | int | None] = {"q": words, "top_k": MAX_HITS, "min_score": 1, "order": "relevance"}
        reply = await client.request(
            "GET", f"{_PATH}/search", params={**self._folder.caller, **params, "tag.folder": self._digest(prefix)}
        )
        return {
            self._folder.parse_id(resource_id): float(record.get("relevance") or 0.0)
            for record in client.list_results(reply)
            for resource_id in record.get("resource_ids", ())
        }

    async def _find(self, path: Sequence[str]) -> list[str]:
        params = {**self._folder.caller, "tag.document": self._digest(path)}
        return [str(record["id"]) for record in client.list_results(await client.request("GET", _PATH, params=params))]

    async def _delete(self, ids: Sequence[str]) -> None:
        deletions = (
            client.request("DELETE", f"{_PATH}/{client.encode_segment(record_id)}", params=self._folder.caller)
            for record_id in ids
        )
        await asyncio.gather(*deletions)

    def _digest(self, path: Sequence[str]) -> str:
        # Values of tags are short, and exact matches only.
        return sha256(self._folder.make_id(path).encode()).hexdigest()[:32]


def _list_above(path: Sequence[str]) -> list[Sequence[str]]:
    return [path[:length] for length in range(min(len(path), _MAX_LEVELS))]
