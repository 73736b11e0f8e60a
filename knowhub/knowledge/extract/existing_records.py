"""The stored records of an owner that candidates are compared with, and how a profile grows by them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from knowhub.conversations.recalled import list_plain_lines, normalize_words
from knowhub.conversations.sentences import Fold
from knowhub.conversations.statements.reader import read_values
from knowhub.core import scopes
from knowhub.core.near_duplicates import MIN_SIMILARITY, jaccard, shingles, words
from knowhub.core.operation import Row, View
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import evidence, table
from knowhub.knowledge.extract.model import PROFILE_CATEGORIES, CandidateCategory, KnowledgeCandidate
from knowhub.knowledge.facts import have_same_words
from knowhub.knowledge.model import KNOWLEDGE, Feedback, KnowledgeSummary, ListQuery
from knowhub.knowledge.table import find_record, list_records
from knowhub.knowledge.visibility import list_visible_replacements

LOOKED_AT = 300
_CATEGORIES = frozenset(table.facet("tag.category", category) for category in CandidateCategory)
_MAX_CONTENT_CHARS: Final = 2_000
# A user repeats a record with its label.
_SAID_TWICE: Final = re.compile(r"^(用户说：|The user said: )(?:\s*(?:content:\s*)?(?:用户说：|The user said: ))+")
_LABEL: Final = re.compile(r"^(?:用户说：|The user said: )", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ExistingRecord:
    """A record that candidates are compared with."""

    row: Row
    audience: frozenset[str]
    category: str
    text: str


class ExistingRecords:
    """Current records of the caller: the newest 300, and those that were named as similar.

    `audience` can read what a conversation of the caller adds. Each version is read once, and each text is taken apart
    once.
    """

    def __init__(self, ctx: RequestContext, fold: Fold = str) -> None:
        self._ctx = ctx
        self.scopes = _resolve_scopes(ctx)
        self.audience = scopes.audience(self.scopes, ctx.default_owner)
        self.filters = (frozenset({table.facet("owner", ctx.default_owner)}), _CATEGORIES)
        self._similar_ids: list[str] = []
        self.has_more = False
        """Whether the owner may have older records. Only similar ones of them are compared."""
        self._read: dict[tuple[str, int], ExistingRecord] = {}
        self._records: list[ExistingRecord] = []
        self._get_shingles = cache(shingles)
        self._get_values = cache(lambda text: dict(read_values(strip_label(text), fold)[0]))

    def refresh(self, view: View) -> None:
        """Read the current records; unchanged ones are not read again."""
        if not self._ctx.can_edit(self._ctx.default_owner):
            # The caller adds no evidence to records that they may not edit.
            self._records = []
            return
        query = ListQuery(self.filters, LOOKED_AT)
        newest = list_records(view, query)
        self.has_more = len(newest) == LOOKED_AT
        known = {summary.id for summary in newest}
        older = [find_record(view, similar_id) for similar_id in self._similar_ids if similar_id not in known]
        similar = [summary for summary in older if summary is not None and table.matches(summary, query)]
        similar.sort(key=lambda summary: -summary.ordinal)
        current = [summary for summary in (*newest, *similar) if self._is_current(view, summary)]
        keys = [(summary.id, summary.version) for summary in current]
        self._read = {key: self._read.get(key) or _parse_row(view.get(KNOWLEDGE, key[0]) or {}) for key in keys}
        self._records = list(self._read.values())

    def include(self, ids: Iterable[str]) -> None:
        """Compare these records of the owner too, from the next `refresh` on. The most similar comes first."""
        self._similar_ids = list(dict.fromkeys((*ids, *self._similar_ids)))

    def prepare(self, candidates: Sequence[KnowledgeCandidate]) -> None:
        """Take the texts apart before the decision, which blocks the event loop. A thread can do it."""
        for text in (*(stored.text for stored in self._records), *(candidate.content for candidate in candidates)):
            self._get_shingles(text)
            self._get_values(text)

    def add(self, row: Row) -> None:
        """Add a row of this decision, for the candidates that follow."""
        self._records = [stored for stored in self._records if stored.row["id"] not in (row["id"], row["supersedes"])]
        self._records.insert(0, _parse_row(row))

    def list_lines(self) -> frozenset[str]:
        """Return the lines of the records, to find quotations of them."""
        return frozenset(line for stored in self._records for line in list_plain_lines(stored.row["content"]))

    def list_about_user(self, limit: int) -> list[ExistingRecord]:
        """Return records about the user, for a model to point at: the similar ones, then the newest.

        A model may copy their words, so only records that all of `audience` can read are returned.
        """
        about_user = [
            stored
            for stored in self._records
            if stored.category in PROFILE_CATEGORIES and self.audience <= stored.audience
        ]
        ranks = {similar_id: rank for rank, similar_id in enumerate(self._similar_ids)}
        # The sort is stable: records that are not similar stay newest first.
        about_user.sort(key=lambda stored: ranks.get(stored.row["id"], len(ranks)))
        return about_user[:limit]

    def find_same(self, candidate: KnowledgeCandidate) -> ExistingRecord | None:
        """Return the most similar record that says the same as a candidate, if there is one.

        Only records with exactly the `audience` count: others would reveal the text, or be missed by some readers.
        """
        pointed = self.find_named_record(candidate, candidate.same_as)
        if pointed is not None and pointed.audience == self.audience:
            return pointed
        alike = ((self._compare(candidate, stored), stored) for stored in self._records)
        # Most pairs have nothing in common, so the cheap test comes first.
        found = [
            (share, stored)
            for share, stored in alike
            if share >= MIN_SIMILARITY
            and stored.audience == self.audience
            and is_related(candidate.category, stored.category)
        ]
        return max(found, key=lambda pair: pair[0], default=(0.0, None))[1]

    def find_conflict(self, candidate: KnowledgeCandidate) -> ExistingRecord | None:
        """Return the newest record that a candidate contradicts, preferring the `audience`; None if there is none.

        A record is contradicted if a model says so, or if it has another value of a fact that has but one.
        """
        if (pointed := self.find_named_record(candidate, candidate.against)) is not None:
            return pointed
        conflicts = [stored for stored in self._records if self._has_conflict(candidate, self._get_values(stored.text))]
        return min(conflicts, key=lambda stored: stored.audience != self.audience, default=None)

    def _is_current(self, view: View, summary: KnowledgeSummary) -> bool:
        is_over = summary.valid_to is not None and summary.valid_to <= view.now
        return not is_over and not list_visible_replacements(view, self._ctx, summary.id)

    def find_named_record(self, candidate: KnowledgeCandidate, knowledge_id: str | None) -> ExistingRecord | None:
        """Return the current record that a model points at, if a candidate can be about it."""
        if knowledge_id is None:
            return None
        pointed = (stored for stored in self._records if stored.row["id"] == knowledge_id)
        return next((stored for stored in pointed if is_related(candidate.category, stored.category)), None)

    def _compare(self, candidate: KnowledgeCandidate, stored: ExistingRecord) -> float:
        if normalize_words(candidate.content) == normalize_words(stored.text):
            return 1.0
        values = self._get_values(stored.text)
        if candidate.values and dict(candidate.values) == values:
            return MIN_SIMILARITY
        # Whoever says that something is not so any more does not say it again.
        if self._has_conflict(candidate, values):
            return 0.0
        share = jaccard(self._get_shingles(candidate.content), self._get_shingles(stored.text))
        # Two texts that share most words may differ in the word that counts: a figure, a name, a "not".
        return share if share < MIN_SIMILARITY or have_same_words(candidate.content, stored.text) else 0.0

    def _has_conflict(self, candidate: KnowledgeCandidate, values: dict[str, str]) -> bool:
        # A longer form of a value is the same value.
        known = ((values[slot], value) for slot, value in candidate.values if slot in values)
        is_changed = any(old not in value and value not in old for old, value in known)
        return is_changed or any(values.get(slot) == value for slot, value in candidate.ended)


def _resolve_scopes(ctx: RequestContext) -> tuple[str, ...]:
    """Return the scopes for records from a conversation.

    It belongs to the user, and without one to the agent; the project sees it too. Teams and organisations see it only
    when somebody shares it, and so does another user of the agent.
    """
    if ctx.is_root or not ctx.own:
        return ctx.default_record_scopes
    projects = sorted(item for item in ctx.visible or () if item.startswith("project:"))
    return (ctx.default_owner, *projects)


def _parse_row(row: Row) -> ExistingRecord:
    category = row["tags"].get("category", ())
    several = (category,) if isinstance(category, str) else category
    named = next((item for item in several if item in tuple(CandidateCategory)), "")
    audience = scopes.audience(row["scopes"], row["owner"])
    return ExistingRecord(row, audience, named, row["content"])


def is_related(new: CandidateCategory, stored: str) -> bool:
    """Return whether a candidate may support or contradict a stored record, by their categories."""
    if new in PROFILE_CATEGORIES:
        # Wishes, habits and rules are said in each other's form; a background is not.
        return stored in PROFILE_CATEGORIES and (new is CandidateCategory.BACKGROUND) == (
            stored == CandidateCategory.BACKGROUND
        )
    return stored == new


def add_support(row: Row, said: str, case: Mapping[str, Any], now: float, *, replaces: bool = False) -> Row:
    """Return a record with one more case of evidence, its content completed by `said`, or replaced by it."""
    after = evidence.with_feedback(row, Feedback(helpful_case=case), now)
    content = said if replaces else merge_content(row["content"], said)
    return after if content == row["content"] else {**after, "content": content}


def merge_content(stored: str, said: str) -> str:
    """Return the longer text if it contains the words of the other, else both."""
    said = _SAID_TWICE.sub(r"\1", said)
    known, new = (words(strip_label(text)) for text in (stored, said))
    if new <= known or len(stored) > _MAX_CONTENT_CHARS:
        return stored
    if known <= new:
        return said
    together = f"{stored}\n{said}"
    return together if len(together) <= _MAX_CONTENT_CHARS else stored


def strip_label(text: str) -> str:
    """Return a record without the words that say whose statement it is."""
    return _LABEL.sub("", text)


def has_evidence_from(row: Row, message_id: str) -> bool:
    """Return whether a message is evidence of a record already; it must not count twice."""
    named = row["tags"].get("message_ids", ())
    cases = (*row["eval"]["helpful_history"], *row["eval"]["harmful_history"])
    known = (row["source"]["message_id"], *((named,) if isinstance(named, str) else named))
    return message_id in known or any(case.get("message_id") == message_id for case in cases)
