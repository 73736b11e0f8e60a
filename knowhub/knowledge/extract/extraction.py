"""Extraction: find what is worth keeping in a conversation, by a model or by rules, and save it."""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from knowhub.conversations import recalled
from knowhub.conversations.changes.checks import check_changes
from knowhub.conversations.changes.prompt import (
    MAX_KNOWN,
    MAX_SHOWN_CHARS,
    SIMILAR_TO_A_TEXT,
    ChangePrompt,
    KnownMemory,
    RefusedChange,
    count_for_prompt,
    count_overlap,
    list_said,
)
from knowhub.conversations.cleaning import clean_messages
from knowhub.conversations.messages import Message, count_partly_read, list_readable, withhold_sealed_bodies
from knowhub.conversations.sentences import Fold
from knowhub.core import permissions
from knowhub.core.ids import Ids
from knowhub.core.language_models import ChatFailed, ChatModel
from knowhub.core.model_calls import ModelConversation, search_texts
from knowhub.core.near_duplicates import is_long_enough, shingles
from knowhub.core.operation import Committed, Draft, HistoryStore, IdempotencyKey, Operation, Row, Unchanged, View
from knowhub.core.recall import SearchHits
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import record_rules, table
from knowhub.knowledge.extract import reading
from knowhub.knowledge.extract.candidate_merge import CandidateMerge, make_result
from knowhub.knowledge.extract.existing_records import ExistingRecord, ExistingRecords
from knowhub.knowledge.extract.model import (
    CandidateCategory,
    CandidateStatus,
    ExtractionRequest,
    ExtractionResult,
    KnowledgeCandidate,
    ResourceSuggestion,
)
from knowhub.knowledge.extract.suggestions import MAX_SUGGESTIONS, suggest_resources
from knowhub.knowledge.model import KNOWLEDGE, DroppedPart, KnowledgeSummary
from knowhub.knowledge.ports import KnowledgeIndex

MAX_CANDIDATES = 200
_REPEATED = "it only repeats this record"
_RECALL_CANDIDATES = 5
_QUERY_CHARS = 500
# A shorter statement of the user is not a quotation.
MIN_QUOTED_WEIGHT = 60
_TEXTS = ("task", "content")
_WRITTEN = (CandidateStatus.NEW, CandidateStatus.MERGED, CandidateStatus.CHANGED, CandidateStatus.ENDED)


@dataclass(frozen=True, slots=True)
class ExtractionOptions:
    """`budget_s` is for all questions to the model, retries included.

    `index` finds records that may say the same as a text, by words and by meaning. `fold` maps variants of a character
    to one, such as traditional to simplified Chinese.
    """

    index: KnowledgeIndex
    budget_s: float = 30.0
    fold: Fold = str


@dataclass(slots=True)
class _ReadResult:
    """The candidates of a conversation, and the calls of the model, which was shown `cut` messages shortened."""

    candidates: list[KnowledgeCandidate]
    cut: int = 0
    rejected: Sequence[RefusedChange] = ()
    calls: Sequence[Row] = ()
    degraded: Sequence[str] = ()
    dropped: Sequence[DroppedPart] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """Messages for one prompt, by their numbers: from `first` to before `end`, after an overlap from `shown` on."""

    shown: int
    first: int
    end: int


class KnowledgeExtraction:
    """Reads conversations: with a model, or by rules. It writes no credentials."""

    def __init__(
        self,
        store: HistoryStore,
        word_index: KnowledgeIndex,
        ids: Ids,
        chat: ChatModel | None,
        options: ExtractionOptions,
    ) -> None:
        self._store = store
        self._word_index = word_index
        self._ids = ids
        self._chat = chat
        self._options = options

    async def extract(
        self, ctx: RequestContext, request: ExtractionRequest, key: IdempotencyKey | None = None
    ) -> ExtractionResult:
        """Find what is worth keeping in the newest messages, and save it in one operation. `dry_run` saves nothing.

        A candidate that cannot be saved is reported, and does not stop the others. Raises what the store's commit
        raises, and Forbidden for a caller who may only read, even with `dry_run`.
        """
        permissions.check_can_write(ctx)
        done = await self._store.find_replay(ctx.account, key)
        if done is not None:
            return _rebuild_answer(done.operation)
        await self._store.refresh(ctx.account)
        sent, readable = request.messages, list_readable(request.messages)
        request = replace(request, messages=await asyncio.to_thread(withhold_sealed_bodies, readable))
        records = ExistingRecords(ctx, self._options.fold)
        records.refresh(self._store.view(ctx.account))
        messages, resources = await asyncio.to_thread(_clean_messages, request.messages, records.list_lines())
        request = replace(request, messages=messages)
        found = await self._find_candidates(ctx, request, records)
        too_many = len(found.candidates) - MAX_CANDIDATES
        found.candidates = found.candidates[:MAX_CANDIDATES]
        resources = list(dict.fromkeys(resources))
        dropped = (
            DroppedPart(
                "messages", "not_read", max(count_partly_read(sent, readable), len(sent) - len(readable) + found.cut)
            ),
            DroppedPart("candidates", "too_many", too_many),
            DroppedPart("resources", "too_many", len(resources) - MAX_SUGGESTIONS),
        )
        found.dropped = [part for part in dropped if part.count > 0]
        return await self._save_candidates(ctx, request, found, records, resources[:MAX_SUGGESTIONS], key)

    async def _find_candidates(
        self, ctx: RequestContext, request: ExtractionRequest, records: ExistingRecords
    ) -> _ReadResult:
        if self._chat is None or not any(message.content.strip() for message in request.messages):
            return _ReadResult(await self._read_statements(request))
        conversation = ModelConversation(self._chat, self._options.budget_s)
        candidates: list[KnowledgeCandidate] = []
        rejected: list[RefusedChange] = []
        read_to = 0
        degraded: Sequence[str] = ()
        try:
            for part in _split_messages(request.messages):
                read, wrong = await self._ask(ctx, conversation, request.messages, part, records)
                candidates += read
                rejected += wrong
                read_to = part.end
        except ChatFailed:
            degraded = ("llm",)
        if rejected and not candidates:
            read_to, degraded = 0, ("llm",)
        if degraded:
            # Rules read only the rest, so that nothing is saved twice.
            candidates += await self._read_statements(request, read_to)
        cut = sum(len(message.content) > MAX_SHOWN_CHARS for message in request.messages[:read_to])
        return _ReadResult(candidates, cut, rejected, conversation.calls, degraded)

    async def _ask(
        self,
        ctx: RequestContext,
        conversation: ModelConversation,
        messages: Sequence[Message],
        part: _Part,
        records: ExistingRecords,
    ) -> tuple[list[KnowledgeCandidate], list[RefusedChange]]:
        """Return what a model finds in one part, and what of it is not believed. Raises ChatFailed."""
        shown = messages[part.shown : part.end]
        # A model may point at the records that are similar to what the user says, and at the newest.
        await self._include_similar(ctx, records, list_said(messages[part.first : part.end]))
        known = records.list_about_user(MAX_KNOWN)
        ids = [stored.row["id"] for stored in known]
        prompt = ChangePrompt(shown, [_format_known(stored) for stored in known], reading.CHANGE_FIELDS)
        choices = {f"k{number}": record_id for number, record_id in enumerate(ids, 1)}
        answered = await conversation.ask(prompt.make_request(), choices, prompt.read_answer)
        changes, refused = await asyncio.to_thread(check_changes, prompt, answered)
        candidates = [
            reading.make_candidate(
                change,
                [part.shown + place for place in change.evidence],
                messages,
                None if change.memory is None else ids[change.memory],
            )
            for change in changes
        ]
        return candidates, refused

    async def _include_similar(self, ctx: RequestContext, records: ExistingRecords, texts: Sequence[str]) -> None:
        """Include the records that are most similar to the texts, by words and by meaning, however old they are."""

        def search(text: str) -> Awaitable[SearchHits[KnowledgeSummary]]:
            return self._options.index.search(
                ctx.account, text, records.filters, lambda summary: summary.live, SIMILAR_TO_A_TEXT
            )

        records.include(hit.summary.id for hit in await search_texts(texts, search))
        records.refresh(self._store.view(ctx.account))

    async def _read_statements(self, request: ExtractionRequest, first: int = 0) -> list[KnowledgeCandidate]:
        """Return what rules find in the messages from a number on."""
        found = await asyncio.to_thread(reading.find_candidates, request.messages, self._options.fold)
        return [candidate for candidate in found if candidate.cited[-1] >= first]

    async def _find_recalled(self, ctx: RequestContext, candidates: Sequence[KnowledgeCandidate]) -> dict[int, str]:
        """Return the record that a candidate only repeats word for word, by the number of the candidate.

        A user may repeat their own record, which is evidence. A long copy of another record is pasted text.
        """
        recalled_ids: dict[int, str] = {}
        groups = table.limit_to_visible((), ctx)
        for number, candidate in enumerate(candidates):
            if candidate.is_said_by_user and not is_long_enough(candidate.content, MIN_QUOTED_WEIGHT):
                continue
            # A search need not wait; give other requests a turn.
            await asyncio.sleep(0)
            found = await self._word_index.search(
                ctx.account, candidate.content, groups, lambda summary: summary.live, _RECALL_CANDIDATES
            )
            view = self._store.view(ctx.account)
            for hit in found.hits:
                row = view.get(KNOWLEDGE, hit.summary.id)
                is_own = candidate.is_said_by_user and hit.summary.owner in ctx.own
                if row is not None and not is_own and recalled.is_copy(candidate.content, [shingles(row["content"])]):
                    recalled_ids[number] = hit.summary.id
                    break
        return recalled_ids

    async def _save_candidates(
        self,
        ctx: RequestContext,
        request: ExtractionRequest,
        found: _ReadResult,
        records: ExistingRecords,
        resources: Sequence[ResourceSuggestion],
        key: IdempotencyKey | None,
    ) -> ExtractionResult:
        recalled_ids = await self._find_recalled(ctx, found.candidates)
        # Most texts are compared before the decision, because a decision blocks the event loop.
        records.refresh(self._store.view(ctx.account))
        if records.has_more:
            texts = [candidate.content[:_QUERY_CHARS] for candidate in found.candidates]
            await self._include_similar(ctx, records, texts)
        await asyncio.to_thread(records.prepare, found.candidates)
        results: list[Mapping[str, Any]] = []
        rows: list[Row] = []

        def decide(view: View) -> Draft | Unchanged:
            merge = CandidateMerge(view, ctx, request, self._ids, records)
            results[:] = [
                make_result(candidate, CandidateStatus.RECALLED, recalled_ids[number], _REPEATED)
                if number in recalled_ids
                else merge.apply(candidate)
                for number, candidate in enumerate(found.candidates)
            ]
            rows[:] = merge.rows.values()
            if not rows:
                return Unchanged()
            # The reply holds no texts: an erase reaches them in the rows.
            reply = {
                "results": [{name: item[name] for name in item if name not in _TEXTS} for item in results],
                "dropped": [asdict(part) for part in found.dropped],
                "messages_read": len(request.messages),
            }
            writes = [record_rules.write(row) for row in rows]
            return Draft("extract_knowledge", writes, reply=reply, agent_io=found.calls or None)

        operation_id = None
        if request.dry_run:
            decide(self._store.view(ctx.account))
        else:
            outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
            if isinstance(outcome, Committed):
                if outcome.replayed:
                    return _rebuild_answer(outcome.operation)
                operation_id = outcome.operation.operation_id
        return ExtractionResult(
            results=results,
            saved=_select_saved(rows, results),
            operation_id=operation_id,
            resources=resources,
            rejected=found.rejected,
            degraded=found.degraded,
            dropped=found.dropped,
            messages_read=len(request.messages),
            dry_run=request.dry_run,
        )


def _clean_messages(
    messages: Sequence[Message], stored: frozenset[str]
) -> tuple[list[Message], list[ResourceSuggestion]]:
    """Return the messages without credentials and what is stored or withheld, and the resources to suggest."""
    cleaned = [
        replace(message, content=recalled.remove_quoted_lines(message.content, stored)) if message.is_user else message
        for message in clean_messages(messages)
    ]
    return cleaned, [offer for number, message in enumerate(messages) for offer in suggest_resources(number, message)]


def _split_messages(messages: Sequence[Message]) -> Iterator[_Part]:
    """Yield the parts of a conversation that are shown to a model, one after the other."""
    sizes = [len(message.content) for message in messages]
    first = 0
    while first < len(sizes):
        end = first + count_for_prompt(sizes[first:])
        if any(message.content.strip() for message in messages[first:end]):
            yield _Part(first - count_overlap(sizes[:first]), first, end)
        first = end


def _format_known(stored: ExistingRecord) -> KnownMemory:
    is_background = stored.category == CandidateCategory.BACKGROUND
    said_on = stored.row["source"]["timestamp"] or stored.row["created_at"]
    return KnownMemory(reading.PROFILE if is_background else reading.PREFERENCES, stored.text, said_on)


def _select_saved(rows: Iterable[Row], results: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the rows that candidates became. A record that one of them contradicts is written, too."""
    saved = {item["knowledge_id"] for item in results if item["status"] in _WRITTEN}
    return [row for row in rows if row["id"] in saved]


def _rebuild_answer(operation: Operation) -> ExtractionResult:
    """Return the answer to a retry, from the operation of the first request."""
    reply = operation.reply or {}
    rows = {change.id: change.after for change in operation.changes}
    results = [dict.fromkeys(_TEXTS, "") | item for item in reply["results"]]
    for item in results:
        row = rows.get(item["knowledge_id"] or "")
        if row is not None and item["status"] in _WRITTEN:
            item |= {name: row[name] for name in _TEXTS}
    # Operations of earlier versions do not have it.
    dropped = [DroppedPart(**part) for part in reply.get("dropped", ())]
    saved = _select_saved(rows.values(), results)
    return ExtractionResult(
        results, saved, operation.operation_id, dropped=dropped, messages_read=reply["messages_read"]
    )
