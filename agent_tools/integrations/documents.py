"""Texts of a user in a folder of resources.

A resource has an id of the caller's choice, a version, an owner, an expiry and an undo, and is listed by the beginning
of its id. No search and no recall finds it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from agent_tools import client
from agent_tools.results import ToolFailure

PAGE: Final = 100

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
        try:
            return self._make_document(await client.request("GET", self._address(path), params=self.caller))
        except ToolFailure as failure:
            if _is(failure, HTTPStatus.NOT_FOUND):
                return None
            raise

    async def create(self, path: Sequence[str], text: str, metadata: Mapping[str, Any] | None = None) -> bool:
        """Store a new text. False if the path is taken."""
        try:
            await self.save(path, text, metadata=metadata, upsert=False)
        except ToolFailure as failure:
            if _is(failure, HTTPStatus.CONFLICT):
                return False
            raise
        return True

    async def save(
        self,
        path: Sequence[str],
        text: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        expires_at: str | None = None,
        upsert: bool = True,
    ) -> bool:
        """Store a text, or replace all of it. Return whether it is new."""
        body = {"id": self.make_id(path), "body": text, "metadata": dict(metadata or {}), "expires_at": expires_at}
        params = {"upsert": "true"} if upsert else None
        reply = await client.request("POST", "/api/resource", params=params, body=self.caller | body)
        return reply.get("version") == 1

    async def change(self, document: Document, **fields: object) -> bool:
        """Change fields of the resource: `body`, `metadata`, `expires_at`. False if it was changed or deleted since."""
        try:
            body = {**self.caller, **fields, "version": document.version}
            await client.request("PATCH", self._address(document.path), body=body)
        except ToolFailure as failure:
            if _is(failure, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                return False
            raise
        return True

    async def delete(self, path: Sequence[str]) -> bool:
        """Delete a text; an undo brings it back. False if there is none."""
        try:
            await client.request("DELETE", self._address(path), params=self.caller)
        except ToolFailure as failure:
            if _is(failure, HTTPStatus.NOT_FOUND):
                return False
            raise
        return True

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


def _is(failure: ToolFailure, *statuses: int) -> bool:
    return failure.metadata.get("status") in statuses


def _encode(name: str) -> str:
    """Escape a name for an id: letters and digits of any script stay, and no two names become the same."""
    plain = _PLAIN if name.strip(".") else frozenset[str]()
    kept = (char if char.isalnum() or char in plain else _escape(char) for char in name)
    return "".join(kept) or "="


def _decode(name: str) -> str:
    unescaped = _ESCAPED.sub(
        lambda found: bytes.fromhex(found[0].replace("=", "")).decode("utf-8", "surrogatepass"), name
    )
    return "" if name == "=" else unescaped


def _escape(char: str) -> str:
    return "".join(f"={byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
