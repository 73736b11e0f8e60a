"""The stored records of an owner that candidates are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from knowhub.conversations.comparison import SAME, PairwiseComparison
from knowhub.conversations.recalled import plain_lines
from knowhub.conversations.statements import Statement
from knowhub.core import scopes
from knowhub.core.operation import Row, View
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import table
from knowhub.knowledge.extract import profile
from knowhub.knowledge.extract.model import PROFILE_CATEGORIES, CandidateCategory, KnowledgeCandidate
from knowhub.knowledge.model import COLLECTION, KnowledgeSummary, ListQuery
from knowhub.knowledge.table import find_replacements, list_records

LOOKED_AT = 300
# Records that are no wishes are the same only if they share most words.
_SAME_WORDS = 0.8
_COMPARED = frozenset({*PROFILE_CATEGORIES, CandidateCategory.CORRECTION})
_CATEGORIES = frozenset(table.facet("tag.category", category.value) for category in CandidateCategory)


@dataclass(frozen=True, slots=True)
class ExistingRecord:
    """A record that candidates are compared with."""

    row: Row
    audience: frozenset[str]
    category: str
    text: str


class ExistingRecords:
    """The newest 300 current records of an owner. Each version is read once."""

    def __init__(self, ctx: RequestContext, owner: str, comparison: PairwiseComparison) -> None:
        self._ctx = ctx
        self._owner = owner
        self._comparison = comparison
        self._read: dict[tuple[str, int], ExistingRecord] = {}
        self._records: list[ExistingRecord] = []

    def refresh(self, view: View) -> None:
        """Read the current records; unchanged ones are not read again."""
        if not self._ctx.can_edit(self._owner):
            # The caller adds no evidence to records that they may not edit.
            self._records = []
            return
        filters = [frozenset({table.facet("owner", self._owner)}), _CATEGORIES]
        found = list_records(view, ListQuery(filters, LOOKED_AT))
        current = [summary for summary in found if self._is_current(view, summary)]
        self._read = {(summary.id, summary.version): self._load(view, summary) for summary in current}
        self._records = list(self._read.values())

    def prepare(self, candidates: Sequence[KnowledgeCandidate]) -> None:
        """Compare candidates with the records and with each other. It reads no state, so a thread can do it."""
        for is_compared, prepare in ((True, self._comparison.prepare), (False, self._comparison.prepare_words)):
            said = [candidate.content for candidate in candidates if (candidate.category in _COMPARED) is is_compared]
            stored = [item.text for item in self._records if (item.category in _COMPARED) is is_compared]
            if said:
                prepare(said, [*stored, *said])

    def parse(self, text: str) -> Statement:
        """Parse a text, once."""
        return self._comparison.parse(text)

    def add(self, row: Row) -> None:
        """Add a row of this decision, for the candidates that follow."""
        self._records = [stored for stored in self._records if stored.row["id"] not in (row["id"], row["supersedes"])]
        self._records.insert(0, _parse_row(row))

    def list_lines(self) -> frozenset[str]:
        """Return the lines of the records, to find quotations of them."""
        return frozenset(line for stored in self._records for line in plain_lines(stored.row["content"]))

    def list_newest(self, limit: int, audience: frozenset[str]) -> list[ExistingRecord]:
        """Return the newest records about the user, for a model to point at.

        A model may copy their words, so only records that all of `audience` can read are returned.
        """
        about_user = (
            stored for stored in self._records if stored.category in _COMPARED and audience <= stored.audience
        )
        return list(islice(about_user, limit))

    def find_same(self, candidate: KnowledgeCandidate, audience: frozenset[str]) -> ExistingRecord | None:
        """Return the most similar record that says the same as a candidate, if there is one.

        Only records with exactly this audience count: others would reveal the text, or be missed by some readers.
        """
        pointed = self._resolve_target(candidate, candidate.same_as)
        if pointed is not None and pointed.audience == audience:
            return pointed
        least = SAME if candidate.category in _COMPARED else _SAME_WORDS
        alike = ((self._compare(candidate, stored), stored) for stored in self._records)
        # Most pairs have nothing in common, so the cheap test comes first.
        found = [
            (share, stored) for share, stored in alike if share >= least and _is_match(candidate, stored, audience)
        ]
        return max(found, key=lambda pair: pair[0], default=(0.0, None))[1]

    def find_conflict(self, candidate: KnowledgeCandidate, audience: frozenset[str]) -> ExistingRecord | None:
        """Return the newest record that a candidate contradicts, preferring this audience; None if there is none."""
        if (pointed := self._resolve_target(candidate, candidate.against)) is not None:
            return pointed
        if candidate.category not in _COMPARED:
            return None
        is_exclusive = profile.is_exclusive(candidate.category, candidate.content)
        compared = ((self._comparison.compare(candidate.content, stored.text), stored) for stored in self._records)
        rivals = [
            (how, stored)
            for how, stored in compared
            if how.is_rival and profile.is_related(candidate.category, stored.category)
        ]
        conflicts = [rival for how, rival in rivals if how.is_conflict or is_exclusive]
        return min(conflicts, key=lambda stored: stored.audience != audience, default=None)

    def _is_current(self, view: View, summary: KnowledgeSummary) -> bool:
        newer = find_replacements(view, summary.id)
        over = summary.valid_to is not None and summary.valid_to <= view.now
        return not over and not any(self._ctx.sees(item.audience) for item in newer)

    def _load(self, view: View, summary: KnowledgeSummary) -> ExistingRecord:
        return self._read.get((summary.id, summary.version)) or _parse_row(view.get(COLLECTION, summary.id) or {})

    def _resolve_target(self, candidate: KnowledgeCandidate, knowledge_id: str | None) -> ExistingRecord | None:
        if knowledge_id is None:
            return None
        pointed = (stored for stored in self._records if stored.row["id"] == knowledge_id)
        return next((stored for stored in pointed if profile.is_related(candidate.category, stored.category)), None)

    def _compare(self, candidate: KnowledgeCandidate, stored: ExistingRecord) -> float:
        if candidate.category in _COMPARED:
            return self._comparison.compare(candidate.content, stored.text).similarity
        return self._comparison.word_overlap(candidate.content, stored.text)


def _is_match(candidate: KnowledgeCandidate, stored: ExistingRecord, audience: frozenset[str]) -> bool:
    return stored.audience == audience and profile.is_related(candidate.category, stored.category)


def _parse_row(row: Row) -> ExistingRecord:
    category = row["tags"].get("category", "")
    named = (
        category
        if isinstance(category, str)
        else next((item for item in category if item in set(CandidateCategory)), "")
    )
    audience = scopes.audience(row["scopes"], row["owner"])
    return ExistingRecord(row, audience, named, row["content"])
