"""A session becomes memory: in one operation, however often it is sent."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from knowhub.context import edits, uri
from knowhub.context.commit import commit_checks, results
from knowhub.context.commit.context_writer import ContextWriter, RelationWriter
from knowhub.context.commit.decision import CommitDecider, PreparedCommit, counts
from knowhub.context.commit.parts import (
    TranscriptPart,
    content_keys,
    drop_empty,
    get_state,
    message_of,
    new_parts,
    parts_of,
)
from knowhub.context.commit.rule_extraction import ExtractedCandidates, extract_by_rules, list_recalled
from knowhub.context.commit.session_node import (
    SUMMARISED_MESSAGES,
    ArchiveBuilder,
    is_summary_recent,
    make_archive,
)
from knowhub.context.commit_model import CommitResult, SessionArchive, SessionCommit
from knowhub.context.model import NODES, PARTS, MemoryContext
from knowhub.context.ports import BackgroundExtraction, ContextDirectories
from knowhub.context.queries import list_parts
from knowhub.conversations.messages import Message, without_revealed
from knowhub.core import permissions
from knowhub.core.clock import CooperativePause
from knowhub.core.operation import (
    Committed,
    Decide,
    Draft,
    IdempotencyKey,
    LongDecision,
    Store,
    Unchanged,
    View,
    is_live,
)
from knowhub.core.request_context import RequestContext

_MOST_TRIES: Final = 3
_STALE: Final = "stale"
# Characters: deciding over more is left to a thread.
_DECIDED_AT_ONCE: Final = 65_536


@dataclass(frozen=True, slots=True)
class CommitStages:
    """What carries out plans; a test may watch."""

    writer: Callable[[View], ContextWriter] = ContextWriter
    relations: Callable[[ContextWriter], RelationWriter] = RelationWriter


class CommitCoordinator:
    """Commits sessions to a store that makes every decision durable before it is acknowledged.

    What takes time is done before the decision; the decision itself plans on the newest rows. A model is not asked: it
    reads the session in the background.
    """

    def __init__(
        self,
        store: Store,
        archives: ArchiveBuilder,
        directories: ContextDirectories,
        extraction: BackgroundExtraction | None = None,
        stages: CommitStages | None = None,
    ) -> None:
        self._store = store
        self._archives = archives
        self._directories = directories
        self._extraction = extraction
        self._stages = stages or CommitStages()

    async def commit(
        self, ctx: RequestContext, commit: SessionCommit, key: IdempotencyKey | None = None
    ) -> CommitResult:
        """Keep what is new of a session, and what that says that is worth remembering.

        Empty messages, such as bare tool calls, are counted and not stored. Raises InvalidInput,
        Forbidden for a reader, Conflict for a message whose id is that of another, and as the store's commit.
        """
        permissions.check_can_write(ctx)
        commit_checks.check_commit(commit)
        commit = replace(commit, messages=await asyncio.to_thread(without_revealed, commit.messages))
        whose = uri.memory_context(ctx, commit.session_id, commit.trace_id)
        commit_checks.check_uris(uri.session_uri(whose), commit.messages)
        done = await self._store.find_replay(ctx.account, key)
        if done is not None:
            return await self._make_result(ctx, commit, whose, Committed(done.operation, replayed=True))
        await self._store.refresh(ctx.account)
        view, messages = self._store.view(ctx.account), drop_empty(commit.messages)
        keys = await asyncio.to_thread(content_keys, messages)
        parts = parts_of(view, uri.session_uri(whose), messages, keys)
        if not commit.used_tools and not new_parts(view, parts):
            bare = PreparedCommit(messages, parts, results.archive_of(whose, None, ()), ExtractedCandidates())
            return await self._wait_for_model(ctx, commit, whose, self._make_unchanged_result(ctx, commit, whose, bare))
        prepared = await self._prepare(ctx, commit, whose, parts)
        if commit.options.dry_run:
            return self._preview(ctx, commit, whose, prepared)
        for tries in range(1, _MOST_TRIES + 1):
            outcome = await self._store.commit(ctx.account, ctx.actor, self._decide(commit, whose, prepared), key)
            if isinstance(outcome, Committed):
                return await self._make_result(ctx, commit, whose, outcome)
            if outcome.answer is not _STALE:
                break
            # Somebody else wrote to this session meanwhile: what it was about is said anew, by its own sentences.
            prepared = await self._summarize(ctx, commit, whose, prepared, is_last=tries == _MOST_TRIES - 1)
        return self._make_unchanged_result(ctx, commit, whose, prepared)

    async def _prepare(
        self,
        ctx: RequestContext,
        commit: SessionCommit,
        whose: MemoryContext,
        parts: Sequence[TranscriptPart],
    ) -> PreparedCommit:
        """Do what needs no lock: summarise the session, and extract what its new messages say."""
        view = self._store.view(ctx.account)
        fresh = new_parts(view, parts)
        address = uri.session_uri(whose)
        seen: frozenset[str] | None = None
        if is_summary_recent(view.get(NODES, address), len(list_parts(view, address)) + len(fresh)):
            archive = make_archive(whose, commit.used_tools)
        else:
            archive, seen = await self._build_archive(view, commit, whose, fresh)
        extracted, recalled = ExtractedCandidates(), list[str]()
        if commit.options.extract:
            recalled = list_recalled(view, ctx, commit.used_contexts)
            new = [part.message for part in fresh]
            extracted = await asyncio.to_thread(extract_by_rules, archive, new, recalled, self._archives.fold)
        reader = "by_rules" if self._extraction is None else "by_model"
        return PreparedCommit(
            drop_empty(commit.messages),
            parts,
            archive,
            extracted,
            seen,
            reader if commit.options.extract else "not_asked",
            recalled,
            commit.group.id if commit.group else None,
        )

    async def _summarize(
        self,
        ctx: RequestContext,
        commit: SessionCommit,
        whose: MemoryContext,
        prepared: PreparedCommit,
        *,
        is_last: bool,
    ) -> PreparedCommit:
        view = self._store.view(ctx.account)
        fresh = new_parts(view, prepared.newest(view).parts)
        archive, seen = await self._build_archive(view, commit, whose, fresh)
        return prepared.with_archive(archive, None if is_last else seen)

    async def _build_archive(
        self, view: View, commit: SessionCommit, whose: MemoryContext, fresh: Sequence[TranscriptPart]
    ) -> tuple[SessionArchive, frozenset[str]]:
        """Summarise a session with its new messages; return the URIs of all of them, too."""
        stored, seen = await _messages_of(view, uri.session_uri(whose))
        messages = [*stored, *(part.message for part in fresh)]
        archive = await self._archives.build_archive(whose, messages, commit.used_tools)
        return archive, seen | {part.uri for part in fresh}

    def _decide(self, commit: SessionCommit, whose: MemoryContext, prepared: PreparedCommit) -> Decide[View]:
        deciding = self._make_decider(whose, prepared)

        def decide(view: View) -> Draft | Unchanged:
            if prepared.is_stale(view):
                return Unchanged(_STALE)
            decided = deciding.decide(view)
            if decided is None:
                return Unchanged()
            return replace(decided.draft(_count_received(commit, prepared)), group=commit.group)

        size = sum(len(part.message.content) for part in prepared.parts)
        return decide if size <= _DECIDED_AT_ONCE else LongDecision(decide)

    def _make_decider(self, whose: MemoryContext, prepared: PreparedCommit) -> CommitDecider:
        return CommitDecider(whose, prepared, self._stages.writer, self._stages.relations)

    async def _make_result(
        self, ctx: RequestContext, commit: SessionCommit, whose: MemoryContext, outcome: Committed
    ) -> CommitResult:
        answer = results.result_of(outcome.operation, whose, replayed=outcome.replayed)
        is_written = outcome.replayed or await self._directories.project(ctx.account, outcome.operation)
        # Where a directory has to wait, the leader brings it up: the log has it already.
        answer = answer if is_written else results.with_degraded(answer, "directories")
        return await self._wait_for_model(ctx, commit, whose, answer)

    async def _wait_for_model(
        self, ctx: RequestContext, commit: SessionCommit, whose: MemoryContext, answer: CommitResult
    ) -> CommitResult:
        """Have the model read what waits, and wait for it where the caller asks for that."""
        if self._extraction is None or commit.options.dry_run:
            return answer
        self._extraction.wake()
        if not commit.wait or await self._extraction.wait(ctx.account, uri.session_uri(whose)):
            return answer
        return results.with_degraded(answer, "llm")

    def _preview(
        self, ctx: RequestContext, commit: SessionCommit, whose: MemoryContext, prepared: PreparedCommit
    ) -> CommitResult:
        """Return what would be written, with all that it would say."""
        view = self._store.view(ctx.account)
        decided = self._make_decider(whose, prepared).decide(view)
        if decided is None:
            return self._make_unchanged_result(ctx, commit, whose, prepared)
        archive = results.archive_of(whose, decided.session_row, [part.message for part in decided.fresh])
        return CommitResult(
            archive=archive,
            write_results=decided.results,
            outbox_events=results.events_to_be(view, whose, decided.writes),
            stats=decided.stats(_count_received(commit, prepared)),
            status="dry_run",
            plans=decided.plans
            if ctx.sees_everything
            else results.as_seen(decided.plans, edits.visibility_check(view, ctx)),
        )

    def _make_unchanged_result(
        self, ctx: RequestContext, commit: SessionCommit, whose: MemoryContext, prepared: PreparedCommit
    ) -> CommitResult:
        view = self._store.view(ctx.account)
        row = view.get(NODES, uri.session_uri(whose))
        archive = results.archive_of(whose, row if is_live(row) else None, ())
        stats = _count_received(commit, prepared)
        stats["messages"] |= counts(get_state(view, part) for part in prepared.newest(view).parts)
        status = "dry_run" if commit.options.dry_run else "unchanged"
        return CommitResult(archive, [], [], stats, status)


async def _messages_of(view: View, session_uri: str) -> tuple[list[Message], frozenset[str]]:
    """Return the newest messages of a session, and the URIs of all of them."""
    heads = list_parts(view, session_uri)
    messages: list[Message] = []
    pause = CooperativePause()
    for head in heads[-SUMMARISED_MESSAGES:]:
        row = view.get(PARTS, head.uri)
        if row is not None:
            messages.append(message_of(row))
        await pause.pause()
    return messages, frozenset(head.uri for head in heads)


def _count_received(commit: SessionCommit, prepared: PreparedCommit) -> dict[str, Any]:
    """Return what is counted before anything is decided."""
    blank = len(commit.messages) - len(prepared.parts)
    return {
        "messages": {"received": len(commit.messages), "blank": blank},
        "candidates": len(prepared.extracted.candidates),
        "dropped": dict(prepared.extracted.dropped),
    }
