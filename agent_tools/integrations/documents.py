"""Texts of a user in a folder of resources, and logs of JSON items that are kept as such texts.

A resource has an id of the caller's choice, a version, an owner, an expiry and an undo, and is listed by the beginning
of its id. No search and no recall finds it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from agent_tools import client
from agent_tools.results import ToolFailure

PAGE: Final = 100
PART_CHARS: Final = 150_000
"""The longest text of a part of a log: in JSON, escaped, it stays below the 1 MiB of a request."""
TRIES: Final = 20

_PLAIN: Final = frozenset("-_.")
_ESCAPED: Final = re.compile(r"(?:=[0-9A-F]{2})+")


@dataclass(frozen=True, slots=True)
class Document:
    """A stored text. `path` is its place below the folder; times are ISO 8601."""

    path: tuple[str, ...]
    text: str
    metadata: dict[str, Any]
    version: int
    created_at: str
    updated_at: str
    expired: bool

    def parse(self) -> Any:  # noqa: ANN401 -- any JSON
        """Return the value of the JSON text. Raises ToolFailure if it is none: somebody has changed it."""
        return parse_json(self.text, self.path)


class DocumentFolder:
    """The texts of a user in a folder. A path is a sequence of any texts: each is escaped in the resource's id.

    Every method raises ToolFailure when the server refuses or does not answer.
    """

    def __init__(self, name: str, user_id: str) -> None:
        if not user_id:
            raise ValueError("name the user whose documents these are")
        self.caller = {"user_id": user_id}
        self._prefix = f"{name}/{_encode(user_id)}/"

    async def read(self, path: Sequence[str]) -> Document | None:
        """Return a text, None if there is none."""
        call = client.request("GET", self._address(path), params=self.caller)
        row = await client.await_unless_refused(call, HTTPStatus.NOT_FOUND)
        return None if row is None else self._make_document(row)

    async def create(self, path: Sequence[str], text: str, metadata: Mapping[str, Any] | None = None) -> bool:
        """Store a new text. False if the path is taken."""
        body = {**self.caller, "id": self.make_id(path), "body": text, "metadata": dict(metadata or {})}
        call = client.request("POST", "/api/resource", body=body)
        return await client.await_unless_refused(call, HTTPStatus.CONFLICT) is not None

    async def save(
        self,
        path: Sequence[str],
        text: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        expires_at: str | None = None,
    ) -> None:
        """Store a text, or replace all of it."""
        fields = {"body": text, "metadata": dict(metadata or {}), "expires_at": expires_at}
        body = {**self.caller, "id": self.make_id(path), **fields}
        await client.request("POST", "/api/resource", params={"upsert": "true"}, body=body)

    async def change(self, document: Document, **fields: object) -> bool:
        """Change fields of the resource: `body`, `metadata`, `expires_at`. False if it was changed or deleted since."""
        body = {**self.caller, **fields, "version": document.version}
        call = client.request("PATCH", self._address(document.path), body=body)
        return await client.await_unless_refused(call, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND) is not None

    async def delete(self, path: Sequence[str]) -> bool:
        """Delete a text; an undo brings it back. False if there is none."""
        call = client.request("DELETE", self._address(path), params=self.caller)
        return await client.await_unless_refused(call, HTTPStatus.NOT_FOUND) is not None

    async def scan(self, path: Sequence[str] = (), after: str | None = None) -> list[Document]:
        """Return the texts below a path, by id; only those behind the name `after`."""
        prefix = self.make_id(path) + ("/" if path else "")
        cursor = None if after is None else prefix + _encode(after)
        found: list[Document] = []
        while True:
            params = {**self.caller, "prefix": prefix, "limit": PAGE, "cursor": cursor}
            reply = await client.request("GET", "/api/resource", params=params)
            found.extend(map(self._make_document, client.list_results(reply)))
            cursor = reply.get("next_cursor")
            if cursor is None:
                return found

    def make_id(self, path: Sequence[str]) -> str:
        """Return the id of the resource at a path."""
        return self._prefix + "/".join(map(_encode, path))

    def parse_id(self, resource_id: str) -> tuple[str, ...]:
        """Return the path of a resource. Raises ValueError for an id that `make_id` does not make."""
        return tuple(map(_decode, resource_id.removeprefix(self._prefix).split("/")))

    def _address(self, path: Sequence[str]) -> str:
        return f"/api/resource/{client.encode_segment(self.make_id(path))}"

    def _make_document(self, row: Mapping[str, Any]) -> Document:
        try:
            fields = (row[name] for name in ("body", "metadata", "version", "created_at", "updated_at", "expired"))
            return Document(self.parse_id(row["id"]), *fields)
        except (KeyError, AttributeError, ValueError) as error:
            raise ToolFailure(f"The answer has a resource without its fields ({error}).") from error


class ItemLog:
    """A list of JSON items that grows at its end, in a folder below a path.

    A batch of items is stored whole or not at all: readers leave out an incomplete batch. Several processes may
    append at the same time.
    """

    def __init__(self, folder: DocumentFolder, path: Sequence[str]) -> None:
        self._folder = folder
        self._path = tuple(path)
        # Where the next batch goes, as far as this process knows; None before the first look.
        self._next: int | None = None

    async def append(self, items: Sequence[Any]) -> None:
        """Add items. Raises ToolFailure if other processes take every number first."""
        text = to_json(list(items))
        parts = [text[start : start + PART_CHARS] for start in range(0, len(text), PART_CHARS)]
        if self._next is None:
            await self._scan()
        for _ in range(TRIES):
            number = self._next or 0
            self._next = number + 1
            if await self._folder.create(self._name(number, 0), parts[0], {"parts": len(parts)}):
                for part, rest in enumerate(parts[1:], 1):
                    await self._folder.save(self._name(number, part), rest)
                return
            await self._scan(after=number)
        raise ToolFailure("Others append to this log without a pause, and nothing was added. Try it again.")

    async def read(self) -> list[Any]:
        """Return all items, oldest first."""
        return [item for batch in _group(await self._scan()) for item in _read_items(batch)]

    async def pop(self) -> Any:  # noqa: ANN401 -- any JSON
        """Remove the newest item and return it, None if there is none."""
        for _ in range(TRIES):
            batches = list(_group(await self._scan()))
            while batches and not _read_items(batches[-1]):
                batches.pop()
            if not batches:
                return None
            first, items = batches[-1][0], _read_items(batches[-1])
            dropped = first.metadata.get("dropped", 0) + 1
            if await self._folder.change(first, metadata={**first.metadata, "dropped": dropped}):
                return items[-1]
        raise ToolFailure("Others change this log without a pause, and nothing was removed. Try it again.")

    async def clear(self) -> None:
        """Delete all items, newest first: what is left after a failure is the beginning of the log."""
        for document in reversed(await self._scan()):
            await self._folder.delete(document.path)

    def _name(self, number: int, part: int) -> tuple[str, ...]:
        return (*self._path, f"{number:08d}-{part:04d}")

    async def _scan(self, after: int | None = None) -> list[Document]:
        below = await self._folder.scan(self._path, None if after is None else self._name(after, 9999)[-1])
        found = [document for document in below if len(document.path) == len(self._path) + 1]
        last = int(found[-1].path[-1].partition("-")[0]) + 1 if found else 0
        self._next = max(self._next or 0, last)
        return found


def to_json(value: object) -> str:
    """Return the JSON text of a value. Raises TypeError for what JSON does not have."""
    text = json.dumps(value, ensure_ascii=False)
    # A lone surrogate is JSON, but no text of a request: only its escape is.
    return text if text.isascii() or text.encode("utf-8", "replace").decode() == text else json.dumps(value)


def parse_json(text: str, path: Sequence[str]) -> Any:  # noqa: ANN401 -- any JSON
    """Return the value of a stored JSON text. Raises ToolFailure if it is none: somebody has changed it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolFailure(f"The stored text of {'/'.join(path)} is no JSON ({error}). Undo its last change.") from error


def _encode(name: str) -> str:
    """Escape a name for an id: letters and digits of any script stay, and no two names become the same."""
    plain = _PLAIN if name.strip(".") else frozenset[str]()
    kept = (
        char
        if char.isalnum() or char in plain
        else "".join(f"={byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in name
    )
    return "".join(kept) or "="


def _decode(name: str) -> str:
    unescaped = _ESCAPED.sub(
        lambda found: bytes.fromhex(found[0].replace("=", "")).decode("utf-8", "surrogatepass"), name
    )
    return "" if name == "=" else unescaped


def _group(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """Yield the batches that have all their parts, each as its parts in order."""
    batches: dict[str, list[Document]] = {}
    for document in documents:
        batches.setdefault(document.path[-1].partition("-")[0], []).append(document)
    for parts in batches.values():
        if parts[0].path[-1].endswith("-0000") and parts[0].metadata.get("parts") == len(parts):
            yield parts


def _read_items(parts: Sequence[Document]) -> list[Any]:
    items: list[Any] = parse_json("".join(part.text for part in parts), parts[0].path)
    return items[: len(items) - parts[0].metadata.get("dropped", 0)]
