"""What a slimming would merge: copies, near copies, and which records a model may be asked about (KM-081)."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from knowhub.core.clusters import Cluster, Clusters
from knowhub.core.operation import Row
from knowhub.core.pace import Pace
from knowhub.core.request_context import RequestContext
from knowhub.core.shingles import telling_words, words
from knowhub.knowledge import heads, ranking
from knowhub.knowledge.model import COLLECTION, Head, KnowledgeType, ListQuery
from knowhub.knowledge.ports import KnowledgeIndex, KnowledgeView

MOST_SOURCES = 99
MOST_CHARACTERS = 100_000
MOST_ASKED_TOGETHER = 8
MOST_ASKED_CHARS = 4_000
LEAST_SHARED_WORDS = 0.3
_HEADS_A_TURN = 500
_NEIGHBOURS = MOST_ASKED_TOGETHER - 1


class How(StrEnum):
    """What made several records one."""

    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Ref:
    """A record at the version at which it was looked at, and how long its text was."""

    id: str
    version: int
    characters: int = 0


@dataclass(frozen=True, slots=True)
class Merge:
    """Sources that shall become part of `into`; `text` is a model's task and content, None where none is needed."""

    into: Ref
    sources: Sequence[Ref]
    how: How
    similarity: float | None = None
    text: tuple[str, str] | None = None
    calls: Sequence[Row] = field(default=(), repr=False)

    @property
    def ids(self) -> list[str]:
        """Return the ids of all its records, that which stays first."""
        return [self.into.id, *(source.id for source in self.sources)]

    @property
    def characters(self) -> int:
        """Return how long the texts of all its records are together."""
        return self.into.characters + sum(source.characters for source in self.sources)


class Survey:
    """The records of one caller that may be merged, oldest first. Of each it keeps its id, version and kind.

    Only records of one kind are compared: of one owner, one set of scopes and of types, one visibility and one time of
    validity; profiles, also of the same tags. What supersedes another or is superseded stays as it is, as does what its
    evidence speaks against: it must not come back within another.
    """

    def __init__(self, view: KnowledgeView, ctx: RequestContext) -> None:
        self._view = view
        self._ctx = ctx
        self._pace = Pace()
        self._refs: list[Ref] = []
        self._kinds: list[str] = []
        self._numbers: dict[str, int] = {}
        self._known_kinds: dict[str, str] = {}
        self._clusters = Clusters(self._text_of)
        self._taken: set[int] = set()
        self.records = 0
        self.characters = 0

    def __len__(self) -> int:
        return len(self._refs)

    async def read(self, progress: Callable[[int, int], None]) -> None:
        """Look at every record that the caller sees and owns."""
        found = await self._heads()
        for count, head in enumerate(found):
            await self._pace.pause()
            progress(count, len(found))
            row = self._view.get(COLLECTION, head.id)
            if row is None or not is_there(self._view.head(head.id), head.version):
                continue
            self.records += 1
            self.characters += len(row["task"]) + len(row["content"])
            if is_mergeable(self._view, head):
                self._take_in(head, row)

    async def merges(self) -> list[Merge]:
        """Return the copies and near copies, each set around its oldest record."""
        for _ in self._clusters.gathering():
            await self._pace.pause()
        merges: list[Merge] = []
        for cluster in self._clusters.clusters():
            if cluster is not None:
                merges += self._merges_of(cluster)
            await self._pace.pause()
        return merges

    async def families(self, index: KnowledgeIndex) -> AsyncIterator[list[Ref]]:
        """Yield records that may say the same in other words, the oldest first, each in one family at most.

        Yields an empty list for a record that has none. What is in a merge of near copies already is left for the next
        slimming: its text is about to change.
        """
        for number in range(len(self._refs)):
            await self._pace.pause()
            family = await self._family(index, number) if number not in self._taken else []
            if family:
                family = sorted([number, *family])
                self._taken.update(family)
            yield [self._refs[one] for one in family]

    def is_unmoved(self, ref: Ref) -> bool:
        """Tell whether a record stands as it was looked at."""
        return is_there(self._view.head(ref.id), ref.version)

    def row(self, ref: Ref) -> Row:
        """Return a record's row as it stands now."""
        return self._view.get(COLLECTION, ref.id) or {}

    def _take_in(self, head: Head, row: Row) -> None:
        kind, text = kind_of(row), whole(row)
        number = len(self._refs)
        self._refs.append(Ref(head.id, head.version, len(text)))
        self._kinds.append(self._known_kinds.setdefault(kind, kind))
        self._numbers[head.id] = number
        self._clusters.put(number, text, kind)

    async def _heads(self) -> list[Head]:
        found: list[Head] = []
        before: int | None = None
        while page := self._view.page(ListQuery(limit=_HEADS_A_TURN, before=before)):
            found += (head for head in page if self._ctx.sees(head.audience) and self._ctx.may_edit(head.owner))
            before = page[-1].ordinal
            await self._pace.pause()
        return found[::-1]

    def _merges_of(self, cluster: Cluster) -> Iterator[Merge]:
        into = self._refs[cluster.kept]
        self._taken.update(cluster.copies)
        for copies in _shared_out([(self._refs[number], 1.0) for number in cluster.copies]):
            yield Merge(into, [ref for ref, _ in copies], How.DUPLICATE, 1.0)
        if cluster.near:
            self._taken.update((cluster.kept, *(one.number for one in cluster.near)))
        for near in _shared_out([(self._refs[one.number], one.similarity) for one in cluster.near]):
            yield Merge(into, [ref for ref, _ in near], How.NEAR_DUPLICATE, min(similarity for _, similarity in near))

    async def _family(self, index: KnowledgeIndex, number: int) -> list[int]:
        row = self.row(self._refs[number])
        if not _is_askable(row) or not self.is_unmoved(self._refs[number]):
            return []

        def accept(head: Head) -> bool:
            other = self._numbers.get(head.id, number)
            return other != number and other not in self._taken and self._kinds[other] == self._kinds[number]

        groups = [frozenset({heads.facet("owner", row["owner"])})]
        found = await index.search(self._ctx.account, telling_words(whole(row)), groups, accept, _NEIGHBOURS)
        own = words(whole(row))
        return [self._numbers[hit.head.id] for hit in found.hits if self._is_close(own, hit.head)]

    def _is_close(self, own: frozenset[str], head: Head) -> bool:
        row = self._view.get(COLLECTION, head.id)
        if row is None or not _is_askable(row) or not self.is_unmoved(self._refs[self._numbers[head.id]]):
            return False
        other = words(whole(row))
        return bool(own & other) and len(own & other) / len(own | other) >= LEAST_SHARED_WORDS

    def _text_of(self, number: int) -> str | None:
        # Compared as it stands now: what has moved since is found out before anything is written.
        row = self._view.get(COLLECTION, self._refs[number].id)
        return None if row is None else whole(row)


def is_there(head: Head | None, version: int) -> bool:
    """Tell whether a record is live, at this version."""
    return head is not None and head.live and head.version == version


def is_mergeable(view: KnowledgeView, head: Head) -> bool:
    """Tell whether a record may become part of another, or another part of it."""
    return head.supersedes is None and not view.superseders(head.id) and ranking.head_quality(head) >= 0


def kind_of(row: Row) -> str:
    """Name what two records must have in common before one becomes part of the other."""
    is_profile = KnowledgeType.USER_PROFILE in row["types"]
    common = [
        row["owner"],
        sorted(set(row["scopes"])),
        sorted(set(row["types"])),
        *(row["visibility"], row["valid_from"], row["valid_to"]),
        row["tags"] if is_profile else None,
    ]
    return json.dumps(common, ensure_ascii=False, sort_keys=True)


def whole(row: Row) -> str:
    """Return what of a record is compared."""
    return "\n".join(filter(None, (row["task"], row["content"])))


def _shared_out(sources: Sequence[tuple[Ref, float]]) -> Iterator[list[tuple[Ref, float]]]:
    """Share sources out to merges, at most 99 to each, of 100,000 characters together where it is more than one."""
    share: list[tuple[Ref, float]] = []
    room = MOST_CHARACTERS
    for source in sources:
        room -= source[0].characters
        if share and (room < 0 or len(share) == MOST_SOURCES):
            yield share
            share, room = [], MOST_CHARACTERS - source[0].characters
        share.append(source)
    if share:
        yield share


def _is_askable(row: Row) -> bool:
    # What a model is not shown whole it cannot put into other words without loss.
    return len(whole(row)) <= MOST_ASKED_CHARS
