"""A store of LangGraph on KnowHub: items are resources of a user, and a search finds them by words and by meaning.

Needs the extra `langgraph`. See docs/how-to/use-langgraph.md.
"""

import asyncio
import operator
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, TypeVar

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
    validate_op_namespace,
)

from agent_tools import arguments, client
from agent_tools.integrations.blocking import run_blocking
from agent_tools.integrations.documents import Document, DocumentFolder, to_json

CONCURRENT_CALLS: Final = 8
DEFAULT_FIELDS: Final = ("$",)
"""The whole value."""

MAX_TEXT_CHARS: Final = 100_000
MAX_HITS: Final = 100
"""As many as the server answers a search with."""

_MAX_LEVELS: Final = 49
_PATH: Final = "/api/knowledge"

ValueT = TypeVar("ValueT")
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class KnowHubStore(BaseStore):
    """Items of a user, in namespaces. `fields` are the paths that a search reads, unless a put names others.

    Within a batch all reads come before the writes, and of several writes of an item the last one counts. Errors of the
    server are `ToolFailure`.
    """

    supports_ttl = True

    def __init__(self, user_id: str, *, fields: Sequence[str] = DEFAULT_FIELDS, ttl: TTLConfig | None = None) -> None:
        super().__init__()
        self.ttl_config = ttl
        self._fields = tuple(fields)
        self._folder = DocumentFolder("langgraph", user_id)
        self._index = DocumentIndex(self._folder)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations, from code that cannot wait."""
        return run_blocking(self.abatch(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations, and return their results in the same order."""
        listed = list(ops)
        for op in listed:
            validate_op_namespace(op)
        results = await _gather([self._read(op) for op in listed])
        puts = {(*op.namespace, op.key): op for op in listed if isinstance(op, PutOp)}
        await _gather([self._put(path, op) for path, op in puts.items()])
        return results

    async def asweep(self) -> int:
        """Delete the items that have expired, which no read returns. Return how many there were."""
        expired = [document.path for document in await self._folder.scan() if document.expired]
        await _gather([self._delete(path) for path in expired])
        return len(expired)

    async def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                item = await self._folder.read((*op.namespace, op.key))
                if item is None or item.expired:
                    return None
                await self._refresh([item], refresh=op.refresh_ttl)
                return Item(**_make_fields(item))
            case SearchOp():
                return await self._search(op)
            case ListNamespacesOp():
                return _list_namespaces(op, await self._folder.scan())
            case _:
                return None

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        prefix = tuple(op.namespace_prefix)
        scores: dict[tuple[str, ...], float] = {}
        if op.query:
            scores = await self._index.search(prefix, op.query)
            read = await _gather([self._folder.read(path) for path in scores])
            found = [item for item in read if item is not None]
        else:
            found = sorted(await self._folder.scan(prefix), key=lambda item: item.updated_at, reverse=True)
        fitting = [item for item in found if not item.expired and _matches(item.parse(), op.filter or {})]
        shown = fitting[op.offset : op.offset + op.limit]
        await self._refresh(shown, refresh=op.refresh_ttl)
        return [SearchItem(**_make_fields(item), score=scores.get(item.path)) for item in shown]

    async def _refresh(self, items: Sequence[Document], *, refresh: bool) -> None:
        """Let items with a time to live begin it again, because they are read."""

        async def extend(item: Document) -> None:
            expires_at = _add_minutes(item.metadata["ttl_minutes"])
            # Whoever writes the item meanwhile sets its time anew.
            if await self._folder.change(item, expires_at=expires_at):
                await self._index.extend(item.path, expires_at)

        await _gather([extend(item) for item in items if refresh and "ttl_minutes" in item.metadata])

    async def _put(self, path: tuple[str, ...], op: PutOp) -> None:
        if op.value is None:
            await self._delete(path)
            return
        expires_at = None if op.ttl is None else _add_minutes(op.ttl)
        metadata = {} if op.ttl is None else {"ttl_minutes": op.ttl}
        value = dict(op.value)
        await self._folder.save(path, to_json(value), metadata=metadata, expires_at=expires_at)
        fields = () if op.index is False else self._fields if op.index is None else op.index
        text = "\n".join(text for field in fields for text in get_text_at_path(value, field))
        await self._index.save(path, text, expires_at)

    async def _delete(self, path: Sequence[str]) -> None:
        # The item first: a record without its item is not found.
        await self._folder.delete(path)
        await self._index.delete(path)


async def _gather(calls: Sequence[Awaitable[ValueT]]) -> list[ValueT]:
    """Return the results in order, with a few calls at a time."""
    free = asyncio.Semaphore(CONCURRENT_CALLS)

    async def run(call: Awaitable[ValueT]) -> ValueT:
        async with free:
            return await call

    return await asyncio.gather(*map(run, calls))


def _make_fields(item: Document) -> dict[str, Any]:
    times = {"created_at": item.created_at, "updated_at": item.updated_at}
    return {"namespace": item.path[:-1], "key": item.path[-1], "value": item.parse()} | {
        name: datetime.fromisoformat(time) for name, time in times.items()
    }


def _add_minutes(minutes: float) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()


def _matches(value: object, wanted: object) -> bool:
    """Return whether a value has the fields of a filter. Values that cannot be compared do not fit."""
    if not isinstance(wanted, Mapping):
        return value == wanted
    for name, expected in wanted.items():
        if not name.startswith("$"):
            fits = isinstance(value, Mapping) and name in value and _matches(value[name], expected)
        elif name in _COMPARISONS:
            fits = _compares(value, name, expected)
        else:
            raise ValueError(f"There is no operator {name}. There are: {', '.join(_COMPARISONS)}.")
        if not fits:
            return False
    return True


def _compares(value: object, name: str, expected: object) -> bool:
    try:
        return bool(_COMPARISONS[name](value, expected))
    except TypeError:
        return False


def _list_namespaces(op: ListNamespacesOp, items: Sequence[Document]) -> list[tuple[str, ...]]:
    namespaces = {item.path[:-1] for item in items if not item.expired}
    conditions = op.match_conditions or ()
    found = {name[: op.max_depth] for name in namespaces if all(_fits(name, condition) for condition in conditions)}
    return sorted(found)[op.offset : op.offset + op.limit]


def _fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    part = (
        namespace[: len(path)] if condition.match_type == "prefix" else namespace[max(0, len(namespace) - len(path)) :]
    )
    return len(part) == len(path) and all(wanted in {"*", label} for label, wanted in zip(part, path, strict=True))


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
        levels = range(min(len(path), _MAX_LEVELS))
        fields: dict[str, Any] = {
            "content": words,
            "valid_to": valid_to,
            "tags": {"document": self._digest(path), "folder": [self._digest(path[:level]) for level in levels]},
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
