"""What is stored already that a candidate may meet: the newest records of one owner, by what they say."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from knowhub.core import scopes
from knowhub.core.operation import Row
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import heads, profile
from knowhub.knowledge.extraction_model import PROFILE_CATEGORIES, Candidate, Category
from knowhub.knowledge.meetings import Meetings
from knowhub.knowledge.model import COLLECTION, Head, ListQuery
from knowhub.knowledge.ports import KnowledgeView
from knowhub.knowledge.profile import Statement
from knowhub.knowledge.recalled import plain_lines

LOOKED_AT = 300
# Of records that are no wishes, only what says the same nearly word for word is the same.
_SAME_WORDS = 0.8
_COMPARED = frozenset({*PROFILE_CATEGORIES, Category.CORRECTION})
_CATEGORIES = frozenset(heads.facet("tag.category", one.value) for one in Category)


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as candidates are held against it."""

    row: Row
    audience: frozenset[str]
    category: str
    text: str


class Stock:
    """The newest 300 live records of an owner that stand, read once a version."""

    def __init__(self, ctx: RequestContext, owner: str, meetings: Meetings) -> None:
        self._ctx = ctx
        self._owner = owner
        self._meetings = meetings
        self._read: dict[tuple[str, int], Stored] = {}
        self._standing: list[Stored] = []

    def refresh(self, view: KnowledgeView) -> None:
        """Read what stands now; what has not changed since the last time is not read again."""
        if not self._ctx.may_edit(self._owner):
            # What the caller may not change, it can be neither for nor against.
            self._standing = []
            return
        filters = [frozenset({heads.facet("owner", self._owner)}), _CATEGORIES]
        found = view.page(ListQuery(filters, LOOKED_AT))
        standing = [head for head in found if self._stands(view, head)]
        self._read = {(head.id, head.version): self._stored(view, head) for head in standing}
        self._standing = list(self._read.values())

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        """Hold candidates against the records and each other: no state is read, and it may be done in a thread."""
        for is_compared, prepare in ((True, self._meetings.prepare), (False, self._meetings.prepare_words)):
            said = [one.content for one in candidates if (one.category in _COMPARED) is is_compared]
            stored = [one.text for one in self._standing if (one.category in _COMPARED) is is_compared]
            if said:
                prepare(said, [*stored, *said])

    def statement(self, text: str) -> Statement:
        """Read a text; what was read before is not read again."""
        return self._meetings.statement(text)

    def put(self, row: Row) -> None:
        """Take in a row that this decision writes: the candidates after it meet it as it will stand."""
        self._standing = [one for one in self._standing if one.row["id"] not in (row["id"], row["supersedes"])]
        self._standing.insert(0, _stored(row))

    def lines(self) -> frozenset[str]:
        """Return what the records say, line by line, as quotations are held against it."""
        return frozenset(line for one in self._standing for line in plain_lines(one.row["content"]))

    def known(self, limit: int, audience: frozenset[str]) -> list[Stored]:
        """Return the newest that tell of the user, for a model to point at.

        A model may carry their words into what it finds: they are those that all of `audience` reads already.
        """
        told = (one for one in self._standing if one.category in _COMPARED and audience <= one.audience)
        return list(islice(told, limit))

    def same(self, candidate: Candidate, audience: frozenset[str]) -> Stored | None:
        """Return the record of just this audience that says the same as a candidate, the likest one, if one does.

        What others read too is no place for what was said here, and what fewer read is not found by the rest.
        """
        pointed = self._pointed(candidate, candidate.same_as)
        if pointed is not None and pointed.audience == audience:
            return pointed
        least = profile.SAME if candidate.category in _COMPARED else _SAME_WORDS
        alike = ((self._likeness(candidate, one), one) for one in self._standing)
        # By far the most have nothing in common: what costs more is asked of the rest.
        found = [(share, one) for share, one in alike if share >= least and _is_met(candidate, one, audience)]
        return max(found, key=lambda pair: pair[0], default=(0.0, None))[1]

    def against(self, candidate: Candidate, audience: frozenset[str]) -> Stored | None:
        """Return the newest record that a candidate contradicts, of this audience before others; None if none."""
        if (pointed := self._pointed(candidate, candidate.against)) is not None:
            return pointed
        if candidate.category not in _COMPARED:
            return None
        is_exclusive = profile.is_exclusive(candidate.category, candidate.content)
        met = ((self._meetings.meeting(candidate.content, one.text), one) for one in self._standing)
        rivals = [(how, one) for how, one in met if how.is_rival and profile.can_meet(candidate.category, one.category)]
        against = [one for how, one in rivals if how.is_against or is_exclusive]
        return min(against, key=lambda one: one.audience != audience, default=None)

    def _stands(self, view: KnowledgeView, head: Head) -> bool:
        newer = view.superseders(head.id)
        over = head.valid_to is not None and head.valid_to <= view.now
        return not over and not any(self._ctx.sees(one.audience) for one in newer)

    def _stored(self, view: KnowledgeView, head: Head) -> Stored:
        return self._read.get((head.id, head.version)) or _stored(view.get(COLLECTION, head.id) or {})

    def _pointed(self, candidate: Candidate, knowledge_id: str | None) -> Stored | None:
        if knowledge_id is None:
            return None
        pointed = (one for one in self._standing if one.row["id"] == knowledge_id)
        return next((one for one in pointed if profile.can_meet(candidate.category, one.category)), None)

    def _likeness(self, candidate: Candidate, stored: Stored) -> float:
        if candidate.category in _COMPARED:
            return self._meetings.meeting(candidate.content, stored.text).likeness
        return self._meetings.likeness_of_words(candidate.content, stored.text)


def _is_met(candidate: Candidate, one: Stored, audience: frozenset[str]) -> bool:
    return one.audience == audience and profile.can_meet(candidate.category, one.category)


def _stored(row: Row) -> Stored:
    category = row["tags"].get("category", "")
    named = category if isinstance(category, str) else next((one for one in category if one in set(Category)), "")
    audience = scopes.audience(row["scopes"], row["owner"])
    return Stored(row, audience, named, row["content"])
