"""What a slimming writes: merges as operations of one group, each checked once more as it is written."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowhub.core.errors import InvalidInput, KnowHubError
from knowhub.core.operation import Decide, Draft, Group, Row, Unchanged, next_version
from knowhub.knowledge import decisions, ranking
from knowhub.knowledge.merging import merged_rows
from knowhub.knowledge.model import COLLECTION
from knowhub.knowledge.ports import KnowledgeView
from knowhub.knowledge.slim_asking import left_apart
from knowhub.knowledge.slim_plan import MOST_CHARACTERS, How, Merge, Ref, is_mergeable, is_there

OP = "slim_knowledge"
SHOWN = 500
# They are taken in at once: so many take 30 ms, for which nobody else has a turn.
MOST_SOURCES = 2_500
_ROWS_PER_OPERATION = 100
_MOVED = "one of these was changed meanwhile"
_HIDDEN = "each is found, and with the harmful cases of all of them the whole would not be"


class Moved(KnowHubError):
    """Raised by the last decision, so that nothing is written, where none of its own merges can be."""

    def __init__(self) -> None:
        super().__init__("the records have moved on")


@dataclass(frozen=True, slots=True)
class Plan:
    """The merges that a slimming found, and what it tells beside them.

    `records` are those that were looked at; `has_more` says that another slimming would find more.
    """

    merges: Sequence[Merge]
    records: int
    characters: int
    skipped: Sequence[Mapping[str, Any]] = ()
    degraded: Sequence[str] = ()
    families_asked: int = 0
    has_more: bool = False


class Tally:
    """What is merged, merge by merge, with the rows as they then stand. It holds for one attempt to write.

    `left_out` are the merges that cannot be, with the reason, those of the attempts before too: none is tried again.
    """

    def __init__(self, plan: Plan, left_out: Sequence[tuple[Merge, str]] = ()) -> None:
        self._plan = plan
        self.left_out = list(left_out)
        self._merged: list[dict[str, Any]] = []
        self._counts: Counter[How] = Counter()
        self._survivors: dict[str, Row] = {}
        self._characters_gone = 0

    def take(self, view: KnowledgeView, merge: Merge) -> list[Row]:
        """Return the rows that a merge writes; none, with the reason noted, where it cannot be."""
        if not all(self._stands(view, ref) for ref in (merge.into, *merge.sources)):
            self.left_out.append((merge, _MOVED))
            return []
        into = self._survivors.get(merge.into.id) or view.get(COLLECTION, merge.into.id) or {}
        sources = [view.get(COLLECTION, source.id) or {} for source in merge.sources]
        try:
            rows = merged_rows(into, sources, merge.text, view.now)
        except InvalidInput as problem:
            self.left_out.append((merge, f"the whole cannot stand: {problem}"))
            return []
        evidence = rows[0]["eval"]
        if ranking.quality(evidence["score"], evidence["helpful"], evidence["harmful"]) < 0:
            self.left_out.append((merge, _HIDDEN))
            return []
        self._note(merge, into, rows)
        return rows

    def report(self, *, dry_run: bool) -> dict[str, Any]:
        """Return what was merged and what was not, the first 500 of each, with how many there are."""
        gone = self._counts.total()
        skipped = [*self._plan.skipped, *(left_apart(merge.ids, reason) for merge, reason in self.left_out)]
        return {
            "dry_run": dry_run,
            "records_before": self._plan.records,
            "records_after": self._plan.records - gone,
            "characters_before": self._plan.characters,
            "characters_after": self._plan.characters - self._characters_gone,
            "merged": self._merged[:SHOWN],
            "merged_count": len(self._merged),
            "sources_by": {how.value: self._counts[how] for how in How},
            "skipped": skipped[:SHOWN],
            "skipped_count": len(skipped),
            "families_asked": self._plan.families_asked,
            "has_more": self._plan.has_more,
            "degraded": list(self._plan.degraded),
        }

    def _stands(self, view: KnowledgeView, ref: Ref) -> bool:
        if ref.id in self._survivors:
            # Nobody else comes between two decisions of one group: it is as the merge before has left it.
            return True
        head = view.head(ref.id)
        return head is not None and is_there(head, ref.version) and is_mergeable(view, head)

    def _note(self, merge: Merge, into: Row, rows: Sequence[Row]) -> None:
        kept, *gone = rows
        self._survivors[merge.into.id] = kept
        self._counts[merge.how] += len(gone)
        self._characters_gone += _size(into) + sum(map(_size, gone)) - _size(kept)
        told: dict[str, Any] = {"into": merge.into.id, "sources": merge.ids[1:], "how": merge.how.value}
        if merge.similarity is not None:
            told["similarity"] = merge.similarity
        if (kept["task"], kept["content"]) != (into["task"], into["content"]):
            told |= {"task": kept["task"], "content": kept["content"]}
        self._merged.append(told)


def bounded(merges: Sequence[Merge]) -> list[Merge]:
    """Return the first merges, of at most 2,500 sources together: they are written, and held in memory, at once."""
    room = MOST_SOURCES
    chosen = []
    for merge in merges:
        room -= len(merge.sources)
        if room < 0:
            break
        chosen.append(merge)
    return chosen


def parted(merges: Sequence[Merge]) -> list[list[Merge]]:
    """Part merges into operations of at most 100 rows, of 100,000 characters where it is more than one merge.

    A merge is in one of them as a whole. Each operation is decided in one go, for which nobody else has a turn.
    """
    parts: list[list[Merge]] = []
    rows, characters = _ROWS_PER_OPERATION, 0
    for merge in merges:
        rows += len(merge.ids)
        characters += merge.characters
        if rows > _ROWS_PER_OPERATION or characters > MOST_CHARACTERS:
            parts.append([])
            rows, characters = len(merge.ids), merge.characters
        parts[-1].append(merge)
    return parts


def decides(slim_id: str, parts: Sequence[Sequence[Merge]], tally: Tally) -> list[Decide[KnowledgeView]]:
    """Return the decisions that write it all. The last one bears the report, and raises Moved with nothing to write."""
    return [_deciding(part, Group(slim_id, index, len(parts)), tally) for index, part in enumerate(parts)]


def _deciding(part: Sequence[Merge], group: Group, tally: Tally) -> Decide[KnowledgeView]:
    is_last = group.index == group.of - 1

    def decide(view: KnowledgeView) -> Draft | Unchanged:
        rows: dict[str, Row] = {}
        calls: list[Row] = []
        for merge in part:
            written = tally.take(view, merge)
            rows |= {row["id"]: row for row in written}
            calls += merge.calls if written else ()
        if rows:
            writes = [decisions.write(_once(view, row)) for row in rows.values()]
            reply = tally.report(dry_run=False) if is_last else None
            return Draft(OP, writes, reply, group=group, agent_io=calls or None)
        if is_last:
            raise Moved
        return Unchanged()

    return decide


def _once(view: KnowledgeView, row: Row) -> Row:
    # Several merges into one record are one change of its row in an operation: its version rises once.
    before = view.get(COLLECTION, row["id"])
    return {**row, "version": next_version(before)}


def _size(row: Row) -> int:
    return len(row["task"]) + len(row["content"])
