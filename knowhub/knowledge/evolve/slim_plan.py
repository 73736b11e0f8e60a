"""The plan of a slimming: copies, near copies, and groups of records that a model may be asked about."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from sys import intern
from typing import TypeVar

from knowhub.core.clock import CooperativePause
from knowhub.core.near_duplicates import Cluster, ClusterBuilder, jaccard, make_similarity_query, words
from knowhub.core.operation import Row, View
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import evidence, table
from knowhub.knowledge.evolve.merging import has_same_sentence, join_contents
from knowhub.knowledge.model import KNOWLEDGE, RECORD_FIELDS, KnowledgeSummary, KnowledgeType
from knowhub.knowledge.ports import FindSimilar, KnowledgeIndex
from knowhub.knowledge.table import find_record, find_replacements, list_live_records

ItemT = TypeVar("ItemT")

MAX_SOURCES = 99
MAX_CHARACTERS = 100_000
MAX_ASKED_TOGETHER = 8
MAX_ASKED_CHARS = 4_000
MIN_SHARED_WORDS = 0.3
# With the packaged embedder paraphrases have 0.4 to 0.75, and texts on other things at most 0.47.
MIN_VECTOR_SIMILARITY = 0.5
_REWORDED = "they say the same in other words; joined they would say it twice, and only a model can write one text"
_REORDERED = "their sentences stand in different orders, and only a model can write one text"
_MATCHING_FIELDS = [item.name for item in RECORD_FIELDS if item.must_match]
_NEIGHBOURS = MAX_ASKED_TOGETHER - 1


class MergeReason(StrEnum):
    """Why records are merged."""

    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class RecordRef:
    """A record at the version that was read, and the length of its text."""

    id: str
    version: int
    characters: int = 0


@dataclass(frozen=True, slots=True)
class Merge:
    """Sources to merge into `into`. `text` is the task and content that a model wrote; None without a model."""

    into: RecordRef
    sources: Sequence[RecordRef]
    reason: MergeReason
    similarity: float | None = None
    text: tuple[str, str] | None = None
    calls: Sequence[Row] = field(default=(), repr=False)

    @property
    def ids(self) -> list[str]:
        """Return the ids of all records, the survivor first."""
        return [self.into.id, *(source.id for source in self.sources)]

    @property
    def characters(self) -> int:
        """Return the length of all texts."""
        return self.into.characters + sum(source.characters for source in self.sources)


class MergeCandidates:
    """The records of one caller that may be merged, oldest first.

    Only records of one kind are compared: the same owner, scopes, types, visibility and validity, and the same tags for
    profiles. Records in a chain of `supersedes`, and records with a negative quality, are never merged. Only ids,
    versions and kinds are kept in memory.
    """

    def __init__(self, view: View, ctx: RequestContext) -> None:
        self._view = view
        self._ctx = ctx
        self._pace = CooperativePause()
        self._refs: list[RecordRef] = []
        self._merge_keys: list[str] = []
        self._numbers: dict[str, int] = {}
        self._clusters = ClusterBuilder(self._get_text)
        self._used: set[int] = set()
        self.left_to_model: list[tuple[list[str], str]] = []
        """The ids of near copies that are left to a model, and why they are not joined by rule."""
        self.records = 0
        self.characters = 0

    def __len__(self) -> int:
        return len(self._refs)

    async def read(self, progress: Callable[[int, int], None]) -> None:
        """Read every record that the caller sees and owns."""
        found: list[KnowledgeSummary] = []
        for summary in list_live_records(self._view):
            await self._pace.pause()
            if self._ctx.sees(summary.audience) and self._ctx.can_edit(summary.owner):
                found.append(summary)
        for count, summary in enumerate(found):
            await self._pace.pause()
            progress(count, len(found))
            row = self._view.get(KNOWLEDGE, summary.id)
            if row is None or find_unchanged(self._view, summary.id, summary.version) is None:
                continue
            self.records += 1
            self.characters += len(row["task"]) + len(row["content"])
            if can_merge(self._view, summary):
                kind, text, number = intern(make_merge_key(row)), join_text(row), len(self._refs)
                self._refs.append(RecordRef(summary.id, summary.version, len(text)))
                self._merge_keys.append(kind)
                self._numbers[summary.id] = number
                self._clusters.put(number, text, kind)

    async def find_copies(self) -> list[Merge]:
        """Return the merges of copies and near copies into the oldest record of each set."""
        merges: list[Merge] = []
        for cluster in await asyncio.to_thread(self._clusters.build):
            merges += self._merge_cluster(cluster)
            await self._pace.pause()
        return merges

    async def find_groups(
        self, index: KnowledgeIndex, find_similar: FindSimilar | None = None
    ) -> AsyncIterator[list[RecordRef]]:
        """Yield groups of records that may say the same in other words, oldest first; each record is in one at most.

        They share words, or `find_similar` finds that their vectors are similar.
        Yields an empty list for a record without a group. Records that are merged as near copies are left for the next
        slimming, because their text changes.
        """
        for number in range(len(self._refs)):
            await self._pace.pause()
            group = await self._find_group(index, find_similar, number) if number not in self._used else []
            if group:
                group = sorted([number, *group])
                self._used.update(group)
            yield [self._refs[item] for item in group]

    def get_row(self, ref: RecordRef) -> Row:
        """Return the current row of a record."""
        return self._view.get(KNOWLEDGE, ref.id) or {}

    def _merge_cluster(self, cluster: Cluster) -> Iterator[Merge]:
        into = self._refs[cluster.kept]
        self._used.update(cluster.copies)
        for part in _split_sources([(self._refs[number], 1.0) for number in cluster.copies]):
            yield Merge(into, [ref for ref, _ in part], MergeReason.DUPLICATE, 1.0)
        near: list[tuple[RecordRef, float]] = []
        joined = self.get_row(into)
        for near_copy in cluster.near:
            ref = self._refs[near_copy.number]
            if any(
                has_same_sentence(self.get_row(other), self.get_row(ref)) for other in [into, *(ref for ref, _ in near)]
            ):
                self.left_to_model.append(([into.id, ref.id], _REWORDED))
            elif (content := join_contents(joined, [self.get_row(ref)])) is None:
                self.left_to_model.append(([into.id, ref.id], _REORDERED))
            else:
                joined = {**joined, "content": content}
                near.append((ref, near_copy.similarity))
                self._used.update((cluster.kept, near_copy.number))
        for part in _split_sources(near):
            least = min(similarity for _, similarity in part)
            yield Merge(into, [ref for ref, _ in part], MergeReason.NEAR_DUPLICATE, least)

    async def _find_group(self, index: KnowledgeIndex, find_similar: FindSimilar | None, number: int) -> list[int]:
        row = self.get_row(self._refs[number])
        if not self._is_askable(number):
            return []

        def accept(summary: KnowledgeSummary) -> bool:
            other = self._numbers.get(summary.id, number)
            return other != number and other not in self._used and self._merge_keys[other] == self._merge_keys[number]

        groups = [frozenset({table.facet("owner", row["owner"])})]
        found = await index.search(
            self._ctx.account, make_similarity_query(join_text(row)), groups, accept, _NEIGHBOURS
        )
        own = words(join_text(row))
        close = [hit.summary for hit in found.hits if self._has_common_words(own, hit.summary)]
        own_summary = find_record(self._view, row["id"])
        if find_similar is not None and own_summary is not None:
            similar = await find_similar(self._ctx.account, own_summary, join_text(row), groups, accept, _NEIGHBOURS)
            close = [*(summary for similarity, summary in similar if similarity >= MIN_VECTOR_SIMILARITY), *close]
        numbers = dict.fromkeys(self._numbers[summary.id] for summary in close)
        return [other for other in numbers if self._is_askable(other)][:_NEIGHBOURS]

    def _is_askable(self, number: int) -> bool:
        """Return whether a record is short enough to be shown whole, and was not changed since it was read."""
        ref = self._refs[number]
        row = self._view.get(KNOWLEDGE, ref.id)
        is_short = row is not None and len(join_text(row)) <= MAX_ASKED_CHARS
        return is_short and find_unchanged(self._view, ref.id, ref.version) is not None

    def _has_common_words(self, own: frozenset[str], summary: KnowledgeSummary) -> bool:
        other = words(join_text(self._view.get(KNOWLEDGE, summary.id) or {"task": "", "content": ""}))
        return jaccard(own, other) >= MIN_SHARED_WORDS

    def _get_text(self, number: int) -> str | None:
        # Runs in a thread: a row is replaced in one step. A changed record is detected before anything is written.
        row = self._view.get(KNOWLEDGE, self._refs[number].id)
        return None if row is None else join_text(row)


def find_unchanged(view: View, knowledge_id: str, version: int) -> KnowledgeSummary | None:
    """Return the summary of a record that is live and at this version; None for others."""
    summary = find_record(view, knowledge_id)
    return summary if summary is not None and summary.live and summary.version == version else None


def can_merge(view: View, summary: KnowledgeSummary) -> bool:
    """Return whether a record may be merged with another."""
    if summary.supersedes is not None or find_replacements(view, summary.id):
        return False
    return not evidence.is_downvoted(summary.score, evidence.sum_votes(summary.votes, view.now))


def make_merge_key(row: Row) -> str:
    """Return what two records must have in common to be merged, as one string."""
    common = [row["tags"] if KnowledgeType.USER_PROFILE in row["types"] else None]
    for name in _MATCHING_FIELDS:
        value = row.get(name)
        common.append(sorted(set(value)) if isinstance(value, list) else value)
    return json.dumps(common, ensure_ascii=False, sort_keys=True)


def join_text(row: Row) -> str:
    """Return the text of a record that is compared."""
    return "\n".join(filter(None, (row["task"], row["content"])))


def split_into_parts(
    items: Iterable[ItemT], max_rows: int, measure: Callable[[ItemT], tuple[int, int]]
) -> list[list[ItemT]]:
    """Split items into parts of at most `max_rows` rows; several items have at most 100,000 characters together.

    `measure` returns the rows and the characters of an item.
    """
    parts: list[list[ItemT]] = []
    rows, characters = max_rows, 0
    for item in items:
        more_rows, more_characters = measure(item)
        rows, characters = rows + more_rows, characters + more_characters
        if rows > max_rows or characters > MAX_CHARACTERS:
            parts.append([])
            rows, characters = more_rows, more_characters
        parts[-1].append(item)
    return parts


def _split_sources(sources: Sequence[tuple[RecordRef, float]]) -> list[list[tuple[RecordRef, float]]]:
    return split_into_parts(sources, MAX_SOURCES, lambda source: (1, source[0].characters))
