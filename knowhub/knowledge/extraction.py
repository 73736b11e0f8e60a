"""Extraction: what of a conversation is worth keeping, found by a model or by rules, and gathered (seed 004)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowhub.core import permissions
from knowhub.core.asking import Asking
from knowhub.core.chat import ChatFailed, ChatModel
from knowhub.core.choices import Choices
from knowhub.core.ids import Ids
from knowhub.core.messages import Message
from knowhub.core.operation import Committed, Draft, IdempotencyKey, Operation, Row, Unchanged
from knowhub.core.request_context import RequestContext
from knowhub.core.revealed import without_revealed
from knowhub.core.shingles import weight
from knowhub.knowledge import decisions, extraction_answers, extraction_prompts, heads, recalled
from knowhub.knowledge.candidates import by_rules
from knowhub.knowledge.extraction_model import (
    Candidate,
    Extracted,
    Extraction,
    Fold,
    Rejected,
    ResourceOffer,
    Result,
    SecretFinder,
    Status,
)
from knowhub.knowledge.gathering import Gathering, owners_of, users_place
from knowhub.knowledge.meetings import Meetings
from knowhub.knowledge.model import COLLECTION
from knowhub.knowledge.offers import MAX_OFFERS, offers, told_across, without_secrets
from knowhub.knowledge.ports import KnowledgeIndex, KnowledgeStore, KnowledgeView
from knowhub.knowledge.stock import Stock, Stored

MAX_MESSAGES = 2_000
# A context window that is full: what a host compacts.
MAX_READ_CHARS = 400_000
MAX_CANDIDATES = 200
_PART_CHARS = 24_000
_MAX_PARTS = 4
_ECHOES_LOOKED_AT = 5
# As much as a quotation is to the audit.
LEAST_QUOTED_WEIGHT = 60
_WRITTEN = (Status.NEW, Status.MERGED, Status.CHANGED)


@dataclass(frozen=True, slots=True)
class ExtractionOptions:
    """`budget_s` is what a model has for all that it is asked, retries included.

    `fold` brings the characters of Chinese to one form, traditional to simplified, so that both are understood.
    """

    budget_s: float = 30.0
    fold: Fold = str


@dataclass(slots=True)
class _Found:
    """What reading the messages found."""

    candidates: list[Candidate]
    rejected: Sequence[Rejected] = ()
    calls: Sequence[Row] = ()
    degraded: Sequence[str] = ()


class KnowledgeExtraction:
    """Reads conversations. With no model it works by rules; `find_secrets` keeps credentials out of all it writes."""

    def __init__(
        self,
        store: KnowledgeStore,
        index: KnowledgeIndex,
        ids: Ids,
        chat: ChatModel | None,
        find_secrets: SecretFinder,
        options: ExtractionOptions,
    ) -> None:
        self._store = store
        self._index = index
        self._ids = ids
        self._chat = chat
        self._find_secrets = find_secrets
        self._options = options

    async def extract(self, ctx: RequestContext, asked: Extraction, key: IdempotencyKey | None = None) -> Extracted:
        """Find what is worth keeping in the newest messages and save it in one operation, or, with `dry_run`, tell it.

        A candidate that cannot be saved is answered as such, and aborts nothing. Raises as the store's commit does, and
        Forbidden for a reader, of a preview too.
        """
        permissions.check_may_write(ctx)
        done = await self._store.replayed(ctx.account, key)
        if done is not None:
            return _replayed(done.operation)
        await self._store.refresh()
        asked = replace(asked, messages=without_revealed(_newest(asked.messages)))
        place = users_place(ctx)
        stock = Stock(ctx, place.owner or ctx.default_owner, Meetings())
        stock.refresh(self._store.view(ctx.account))
        messages, resources = await asyncio.to_thread(self._cleaned, asked.messages, stock)
        asked = replace(asked, messages=messages)
        found = await self._found(asked, stock.known(extraction_prompts.MAX_KNOWN, place.audience(ctx)))
        resources += await asyncio.to_thread(self._withhold, found, messages)
        echoes = await self._echoes(ctx, found.candidates)
        return await self._gathered(ctx, asked, found, echoes, resources[:MAX_OFFERS], key)

    def _cleaned(self, messages: Sequence[Message], stock: Stock) -> tuple[list[Message], list[ResourceOffer]]:
        """Return the messages without credentials and without KnowHub's words, and what is to become a resource."""
        cleaned: list[Message] = []
        offered: list[ResourceOffer] = []
        stored = stock.lines()
        for number, message in enumerate(messages):
            safe, secrets = without_secrets(message, self._find_secrets)
            offered += offers(number, safe, secrets)
            cleaned.append(_without_own_words(safe, stored))
        return cleaned, offered

    def _withhold(self, found: _Found, messages: Sequence[Message]) -> list[ResourceOffer]:
        """Take the credentials out of what was found, and return what is to become a resource."""
        safe = [told_across(one, messages, self._find_secrets) for one in found.candidates]
        found.candidates = [candidate for candidate, _ in safe]
        return [offer for _, offered in safe for offer in offered]

    async def _found(self, asked: Extraction, known: Sequence[Stored]) -> _Found:
        if self._chat is None or not any(one.content.strip() for one in asked.messages):
            return _Found(await self._by_rules(asked))
        asking = Asking(self._chat, self._options.budget_s)
        candidates: list[Candidate] = []
        rejected: list[Rejected] = []
        try:
            for part in _parts(asked.messages):
                read, wrong = await self._asked(asking, part, known)
                candidates += read
                rejected += wrong
        except ChatFailed:
            # What it said of some parts is not mixed with what rules find in all: one thing would be kept twice.
            return _Found(await self._by_rules(asked), (), asking.calls, ("llm",))
        return _Found(candidates[:MAX_CANDIDATES], rejected, asking.calls)

    async def _asked(
        self, asking: Asking, part: Sequence[tuple[int, Message]], known: Sequence[Stored]
    ) -> tuple[list[Candidate], list[Rejected]]:
        choices = Choices([one.row["id"] for one in known])
        question = extraction_prompts.extract(part, [one.row["content"] for one in known])
        shown = dict(part)
        return await asking.ask(
            question, choices.by_idx, lambda answer: extraction_answers.read(answer, shown, choices)
        )

    async def _by_rules(self, asked: Extraction) -> list[Candidate]:
        return (await asyncio.to_thread(by_rules, asked.messages, asked.trigger, self._options.fold))[:MAX_CANDIDATES]

    async def _echoes(self, ctx: RequestContext, candidates: Sequence[Candidate]) -> dict[int, str]:
        """Return, by their numbers, the candidates that only repeat a record, and which one that is."""
        echoes: dict[int, str] = {}
        for number, candidate in enumerate(candidates):
            if not candidate.expressed or weight(candidate.content) >= LEAST_QUOTED_WEIGHT:
                # A search may be done without ever waiting: others are let in between.
                await asyncio.sleep(0)
                echo = await self._echo(ctx, candidate)
                if echo is not None:
                    echoes[number] = echo
        return echoes

    async def _echo(self, ctx: RequestContext, candidate: Candidate) -> str | None:
        """Return the record that a candidate repeats; None where it repeats none.

        The user may say again what they said: that is evidence. Somebody else's record, at length and word for word,
        they have pasted.
        """
        groups = [heads.audience_facets(ctx.visible)] if ctx.visible is not None else []
        found = await self._index.search(
            ctx.account, candidate.content, groups, lambda head: head.live, _ECHOES_LOOKED_AT
        )
        view = self._store.view(ctx.account)
        for hit in found.hits:
            row = view.get(COLLECTION, hit.head.id)
            is_own = candidate.expressed and hit.head.owner in ctx.own
            if row is not None and not is_own and recalled.is_echo(candidate.content, row["content"]):
                return hit.head.id
        return None

    async def _gathered(
        self,
        ctx: RequestContext,
        asked: Extraction,
        found: _Found,
        echoes: dict[int, str],
        resources: Sequence[ResourceOffer],
        key: IdempotencyKey | None,
    ) -> Extracted:
        meetings = Meetings(self._options.fold)
        stocks = {owner: Stock(ctx, owner, meetings) for owner in owners_of(ctx, found.candidates)}
        for stock in stocks.values():
            # Read and compared before the decision, so that within it only what changed since is: nothing else runs
            # while it is made.
            stock.refresh(self._store.view(ctx.account))
            await asyncio.to_thread(stock.prepare, found.candidates)
        results: list[Result] = []
        rows: list[Row] = []

        def decide(view: KnowledgeView) -> Draft | Unchanged:
            gathering = Gathering(view, ctx, asked, self._ids)
            gathering.use(stocks)
            results[:] = [
                Result(one, Status.RECALLED, echoes[number], "it only repeats this record")
                if number in echoes
                else gathering.gather(one)
                for number, one in enumerate(found.candidates)
            ]
            rows[:] = gathering.rows.values()
            if not rows:
                return Unchanged()
            # The texts stand in the rows: an erasing reaches them there.
            reply = {"results": [_told(one, with_text=False) for one in results], "messages_read": len(asked.messages)}
            writes = [decisions.write(row) for row in rows]
            return Draft("extract_knowledge", writes, reply=reply, agent_io=found.calls or None)

        operation_id = None
        if asked.dry_run:
            decide(self._store.view(ctx.account))
        else:
            outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
            if isinstance(outcome, Committed):
                if outcome.replayed:
                    return _replayed(outcome.operation)
                operation_id = outcome.operation.operation_id
        written = {one.knowledge_id for one in results if one.status in _WRITTEN}
        return Extracted(
            results=[_told(one) for one in results],
            saved=[row for row in rows if row["id"] in written],
            operation_id=operation_id,
            resources=resources,
            rejected=found.rejected,
            degraded=found.degraded,
            messages_read=len(asked.messages),
            dry_run=asked.dry_run,
        )


def _without_own_words(message: Message, stored: frozenset[str]) -> Message:
    if recalled.is_own_answer(message):
        return replace(message, content="")
    if not message.is_user:
        return message
    return replace(message, content=recalled.without_quoted(recalled.without_recalled(message.content), stored))


def _newest(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the newest messages that are read: 2,000, of 400,000 characters together."""
    left = MAX_READ_CHARS
    kept: list[Message] = []
    for message in reversed(messages[-MAX_MESSAGES:]):
        left -= min(len(message.content), MAX_READ_CHARS)
        if left < 0 and kept:
            break
        kept.append(message)
    return kept[::-1]


def _parts(messages: Sequence[Message]) -> list[list[tuple[int, Message]]]:
    """Cut the newest messages into up to four parts of 24,000 characters, in their order, each with its number."""
    parts: list[list[tuple[int, Message]]] = [[]]
    room = _PART_CHARS
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if not message.content.strip():
            continue
        size = min(len(message.content), extraction_prompts.SHOWN_CHARS)
        if size > room and parts[-1]:
            if len(parts) == _MAX_PARTS:
                break
            parts.append([])
            room = _PART_CHARS
        parts[-1].append((number, message))
        room -= size
    return [part[::-1] for part in reversed(parts) if part]


def _told(result: Result, *, with_text: bool = True) -> dict[str, Any]:
    one = result.candidate
    text = {"task": one.task, "content": one.content} if with_text else {}
    return {
        "status": result.status.value,
        "knowledge_id": result.knowledge_id,
        "reason": result.reason,
        "category": one.category.value,
        "types": list(one.types),
        "tags": dict(one.tags),
        **text,
        "messages": list(one.cited),
        "by": one.by,
    }


def _replayed(operation: Operation) -> Extracted:
    """Return the answer of a request that was answered before, from what it wrote."""
    reply = operation.reply or {}
    rows = {change.id: change.after for change in operation.changes}
    told = [{"task": "", "content": "", **one} for one in reply["results"]]
    for one in told:
        row = rows.get(one["knowledge_id"] or "")
        if row is not None and one["status"] in _WRITTEN:
            one |= {"task": row["task"], "content": row["content"]}
    written = {one["knowledge_id"] for one in told if one["status"] in _WRITTEN}
    saved = [row for row_id, row in rows.items() if row_id in written]
    return Extracted(told, saved, operation.operation_id, messages_read=reply["messages_read"])
