"""A list of JSON items that grows at its end, kept as texts in a folder."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from agent_tools.integrations.documents import Document, DocumentFolder, parse_json, to_json
from agent_tools.results import ToolFailure

PART_CHARS: Final = 150_000
"""The longest text of a part: in JSON, escaped, it stays below the 1 MiB of a request."""
TRIES: Final = 20


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
