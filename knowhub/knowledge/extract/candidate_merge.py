"""Compare candidates with the stored records: save them, merge them, or supersede a record that they contradict.

One decision covers all candidates of a conversation, so one undo takes all of them back.
"""

from collections.abc import Mapping
from typing import Any

from knowhub.core import clock
from knowhub.core.errors import KnowHubError
from knowhub.core.ids import Ids, knowledge_id
from knowhub.core.operation import Row, View, next_version
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import evidence, record_rules, table
from knowhub.knowledge.extract.existing_records import ExistingRecord, ExistingRecords, add_support, has_evidence_from
from knowhub.knowledge.extract.model import CandidateStatus, ExtractionRequest, KnowledgeCandidate
from knowhub.knowledge.model import KNOWLEDGE, Feedback, NewKnowledge
from knowhub.knowledge.visibility import list_visible_duplicates, list_visible_replacements

_MAX_MESSAGE_IDS = 50
_MAX_CASE_CHARS = 4_096


class CandidateMerge:
    """Decides on the candidates of a conversation, on one state of the store."""

    def __init__(
        self,
        view: View,
        ctx: RequestContext,
        request: ExtractionRequest,
        ids: Ids,
        records: ExistingRecords,
    ) -> None:
        self._view = view
        self._ctx = ctx
        self._request = request
        self._ids = ids
        self._records = records
        records.refresh(view)
        self.rows: dict[str, Row] = {}

    def apply(self, candidate: KnowledgeCandidate) -> Mapping[str, Any]:
        """Decide on one candidate. A candidate that cannot be saved is a result, too."""
        try:
            return self._decide(candidate)
        except KnowHubError as problem:
            return make_result(candidate, CandidateStatus.FAILED, None, problem.detail)

    def _decide(self, candidate: KnowledgeCandidate) -> Mapping[str, Any]:
        if candidate.ends is not None:
            return self._end_record(candidate, self._records.find_named_record(candidate, candidate.ends))
        same = self._records.find_same(candidate)
        if same is not None:
            return self._merge_with_same(candidate, same)
        conflict = self._records.find_conflict(candidate)
        if conflict is not None and not candidate.is_said_by_user:
            reason = "the user said otherwise, and an inference does not weigh against that"
            return make_result(candidate, CandidateStatus.CONTRADICTED, conflict.row["id"], reason)
        if conflict is not None:
            return self._replace_conflict(candidate, conflict)
        row = self._make_row(candidate)
        stored_id = self._find_exact_match(row)
        if stored_id is not None:
            return make_result(candidate, CandidateStatus.KNOWN, stored_id, "the same is stored already")
        self._put(row)
        return make_result(candidate, CandidateStatus.NEW, row["id"])

    def _merge_with_same(self, candidate: KnowledgeCandidate, same: ExistingRecord) -> Mapping[str, Any]:
        row_id = same.row["id"]
        message_id = self._request.messages[candidate.cited[-1]].message_id
        if message_id is not None and has_evidence_from(same.row, message_id):
            return make_result(candidate, CandidateStatus.KNOWN, row_id, "its message was counted before")
        if not candidate.is_said_by_user:
            return make_result(candidate, CandidateStatus.KNOWN, row_id, "an agent that says it again is no evidence")
        case = self._make_case(candidate, "said again")
        # A model's update says again what of the record still holds.
        is_update = candidate.same_as == row_id
        after = add_support(same.row, candidate.content, case, self._view.now, replaces=is_update)
        self._put(after)
        return make_result(candidate, CandidateStatus.MERGED, row_id)

    def _replace_conflict(self, candidate: KnowledgeCandidate, conflict: ExistingRecord) -> Mapping[str, Any]:
        """Supersede a record by the user's new statement; the old record stays, with a lower confidence.

        Who can read only the old record still sees it unchanged.
        """
        row = self._make_row(candidate, conflict.row["id"])
        if conflict.audience <= self._records.audience:
            case = Feedback(harmful_case=self._make_case(candidate, "contradicted"))
            after = evidence.with_feedback(conflict.row, case, self._view.now)
            self._put(after)
        self._put(row)
        return make_result(candidate, CandidateStatus.CHANGED, row["id"])

    def _end_record(self, candidate: KnowledgeCandidate, ended: ExistingRecord | None) -> Mapping[str, Any]:
        """Close a record that the user took back. One that others read as well stays as it is."""
        if ended is None:
            return make_result(candidate, CandidateStatus.KNOWN, candidate.ends, "it holds no more already")
        row_id = ended.row["id"]
        if not candidate.is_said_by_user or not ended.audience <= self._records.audience:
            reason = "only its readers' own words end a record"
            return make_result(candidate, CandidateStatus.CONTRADICTED, row_id, reason)
        case = Feedback(harmful_case=self._make_case(candidate, "forgotten"))
        after = evidence.with_feedback(ended.row, case, self._view.now)
        self._put({**after, "valid_to": clock.iso(self._view.now)})
        return make_result(candidate, CandidateStatus.ENDED, row_id)

    def _make_row(self, candidate: KnowledgeCandidate, supersedes: str | None = None) -> Row:
        cited = [self._request.messages[number] for number in candidate.cited]
        ids = list(dict.fromkeys(message.message_id for message in cited if message.message_id))[-_MAX_MESSAGE_IDS:]
        tags: dict[str, str | list[str]] = dict(candidate.tags)
        if len(ids) > 1:
            tags["message_ids"] = ids
        new = NewKnowledge(
            task=candidate.task,
            content=candidate.content,
            types=candidate.types,
            tags=tags,
            scopes=self._records.scopes,
            message_id=ids[-1] if ids else None,
            source=self._make_source(candidate),
            supersedes=supersedes,
        )

        def is_used(row_id: str) -> bool:
            return row_id in self.rows or self._view.raw(KNOWLEDGE, row_id) is not None

        return record_rules.make_row(new, knowledge_id(self._view.now, self._ids, is_used), self._view.now, self._ctx)

    def _make_source(self, candidate: KnowledgeCandidate) -> dict[str, Any]:
        last = self._request.messages[candidate.cited[-1]]
        named = {kind: entity for kind, _, entity in (item.partition(":") for item in sorted(self._ctx.own))}
        is_named = not self._ctx.is_root
        return {
            "category": "exp",
            "agent_id": named.get("agent") if is_named else None,
            "submitted_by": named.get("user") if is_named else None,
            "trace_id": self._request.trace_id,
            "timestamp": last.timestamp,
        }

    def _make_case(self, candidate: KnowledgeCandidate, outcome: str) -> dict[str, Any]:
        last = self._request.messages[candidate.cited[-1]]
        case = {
            "task": "extraction",
            "outcome": outcome,
            "query": candidate.content[:_MAX_CASE_CHARS],
            "message_id": last.message_id,
            "trace_id": self._request.trace_id,
            "timestamp": last.timestamp,
        }
        return {name: value for name, value in case.items() if value is not None}

    def _find_exact_match(self, row: Row) -> str | None:
        """Return the id of a live, current record with the same text."""
        equal = list_visible_duplicates(self._view, self._ctx, table.make_dedup_key(row))
        current = (item.id for item in equal if not list_visible_replacements(self._view, self._ctx, item.id))
        return next(current, None)

    def _put(self, row: Row) -> None:
        before = self._view.get(KNOWLEDGE, row["id"])
        # Several pieces of evidence on one record are one change of its row, so its version rises once.
        self.rows[row["id"]] = {**row, "version": next_version(before)}
        self._records.add(self.rows[row["id"]])


def make_result(
    candidate: KnowledgeCandidate, status: CandidateStatus, knowledge_id: str | None = None, reason: str = ""
) -> Mapping[str, Any]:
    """Return a candidate as the answer has it, with its status and the record that it became or matched."""
    return {
        "status": status.value,
        "knowledge_id": knowledge_id,
        "reason": reason,
        "category": candidate.category.value,
        "types": list(candidate.types),
        "tags": dict(candidate.tags),
        "task": candidate.task,
        "content": candidate.content,
        "messages": list(candidate.cited),
        "by": candidate.by,
    }
