"""Records that nearly say the same, noticed behind each save and kept in memory: derived, and never in its way."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from knowhub.core.clusters import LEAST_SIMILARITY
from knowhub.core.errors import KnowHubError
from knowhub.core.operation import is_live
from knowhub.core.pace import Pace
from knowhub.core.request_context import RequestContext
from knowhub.core.shingles import COMPARED_CHARS, digest, jaccard, shingles, telling_words
from knowhub.knowledge import heads
from knowhub.knowledge.model import COLLECTION, Head
from knowhub.knowledge.ports import KnowledgeIndex, KnowledgeStore

MAX_SHOWN = 10
MAX_KNOWN = 50_000
MAX_READERS = 16
MAX_WAITING = 1_000
_CANDIDATES = 20
_QUERY_CHARS = 40

_Reader: TypeAlias = tuple[str, frozenset[str] | None]
"""An account and what a caller of it sees; None for all."""


class ChangedRow(Protocol):
    """One row that an operation wrote."""

    @property
    def collection(self) -> str:
        """Where the row stands."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def after_row(self) -> Any:  # noqa: ANN401 -- a row, JSON
        """What it says now."""


@dataclass(slots=True)
class _Known:
    """What a text resembles. The numbers name texts: of another text than was compared nothing is known."""

    text_num: int
    others: dict[str, tuple[int, float]] = field(default_factory=dict)


class Similarity:
    """Answers which records resemble one, by shared pairs of words, 0.8 or more of them.

    Candidates are the records that the index of words finds by the longest words of one; each is compared as a whole.
    They are looked for among what one caller sees, and kept apart for each: a record that is hidden from somebody takes
    no place among the candidates for them, so that nothing in their answer tells that it is there.
    """

    def __init__(self, store: KnowledgeStore, index: KnowledgeIndex, *, max_waiting: int = MAX_WAITING) -> None:
        self._store = store
        self._index = index
        self._max_waiting = max_waiting
        self._known: OrderedDict[_Reader, OrderedDict[str, _Known]] = OrderedDict()
        self._waiting: dict[tuple[str, str], None] = {}
        self._worker: asyncio.Task[None] | None = None

    def follow(self, account: str, _seq: int, changes: Sequence[ChangedRow]) -> None:
        """Note the records that an operation wrote. Called by the store, in order; the index has followed before."""
        for change in changes:
            if change.collection == COLLECTION and is_live(change.after_row):
                self._waiting[account, change.id] = None
        if len(self._waiting) > self._max_waiting:
            # So many at once, as an import brings, are looked at when they are asked for, and all others anew.
            self._waiting.clear()
            self._known.clear()
        if self._waiting and (self._worker is None or self._worker.done()):
            self._worker = asyncio.get_running_loop().create_task(self._work(), name="similarity")

    async def of(self, ctx: RequestContext, knowledge_id: str) -> list[tuple[str, float]]:
        """Return the ids of live records that resemble one, those that the caller sees, the most similar first.

        Only the first question of a caller about a record is answered by looking, as long as they are among the 16 that
        asked last. What was saved a moment ago may be missing yet.
        """
        view = self._store.view(ctx.account)
        head = view.head(knowledge_id)
        if head is None or not head.live:
            return []
        reader = (ctx.account, ctx.visible)
        known = self._known_to(reader).get(knowledge_id)
        if known is None or known.text_num != head.text_num:
            known = await self._look(reader, head, Pace())
        found = []
        for other_id, (text_num, similarity) in known.others.items():
            other = view.head(other_id)
            if other is not None and other.live and other.text_num == text_num and ctx.sees(other.audience):
                found.append((other_id, similarity))
        return sorted(found, key=lambda one: (-one[1], one[0]))[:MAX_SHOWN]

    async def settle(self) -> None:
        """Wait until what was saved up to now has been looked at."""
        if self._worker is not None:
            await self._worker

    async def close(self) -> None:
        """End what is going on behind the saves."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    async def _work(self) -> None:
        pace = Pace()
        while self._waiting:
            account, knowledge_id = next(iter(self._waiting))
            del self._waiting[account, knowledge_id]
            for reader in [one for one in self._known if one[0] == account]:
                try:
                    await self._look_again(reader, knowledge_id, pace)
                except KnowHubError:
                    # Whatever keeps the index from answering is told where it is asked for something.
                    continue
                await pace.pause()

    async def _look_again(self, reader: _Reader, knowledge_id: str, pace: Pace) -> None:
        """Look what a changed record resembles for somebody who asked before, and tell it on what they know."""
        head = self._store.view(reader[0]).head(knowledge_id)
        of_reader = self._known.get(reader, OrderedDict())
        if head is None or not head.live or not _sees(reader, head):
            # Where it is shown to them later, the others must be told of it again.
            of_reader.pop(knowledge_id, None)
            return
        known = of_reader.get(knowledge_id)
        if known is None or known.text_num != head.text_num:
            await self._look(reader, head, pace)

    async def _look(self, reader: _Reader, head: Head, pace: Pace) -> _Known:
        account, visible = reader
        known = _Known(head.text_num)
        text = self._text(account, head.id)
        own = shingles(text)
        query = telling_words(text) or text[:_QUERY_CHARS]
        groups = () if visible is None else (heads.audience_facets(visible),)
        found = await self._index.search(account, query, groups, lambda one: one.id != head.id, _CANDIDATES)
        of_reader = self._known.get(reader, OrderedDict())
        for hit in found.hits:
            await pace.pause()
            similarity = _similarity(text, own, self._text(account, hit.head.id))
            if similarity >= LEAST_SIMILARITY:
                known.others[hit.head.id] = (hit.head.text_num, similarity)
                other = of_reader.get(hit.head.id)
                if other is not None and other.text_num == hit.head.text_num:
                    other.others[head.id] = (head.text_num, similarity)
        of_reader[head.id] = known
        if len(of_reader) > MAX_KNOWN // MAX_READERS:
            of_reader.popitem(last=False)
        return known

    def _known_to(self, reader: _Reader) -> OrderedDict[str, _Known]:
        """Return what is known to one caller; the one who has not asked for longest is forgotten for a new one."""
        of_reader = self._known.setdefault(reader, OrderedDict())
        self._known.move_to_end(reader)
        if len(self._known) > MAX_READERS:
            self._known.popitem(last=False)
        return of_reader

    def _text(self, account: str, knowledge_id: str) -> str:
        row = self._store.view(account).get(COLLECTION, knowledge_id) or {"task": "", "content": ""}
        return "\n".join(filter(None, (row["task"], row["content"])))


def _sees(reader: _Reader, head: Head) -> bool:
    visible = reader[1]
    return visible is None or not visible.isdisjoint(head.audience)


def _similarity(text: str, own: frozenset[int], other: str) -> float:
    if digest(text) == digest(other):
        return 1.0
    longer, shorter = max(len(text), len(other)), min(len(text), len(other))
    if longer > COMPARED_CHARS and shorter < LEAST_SIMILARITY * longer:
        # Alike as far as they are compared, but one of them goes on.
        return 0.0
    return round(jaccard(own, shingles(other)), 4)
