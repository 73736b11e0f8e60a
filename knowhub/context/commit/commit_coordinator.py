"""A session becomes memory: in one operation, however often it is sent (CE-062, CE-133, CE-172)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from knowhub.context import edits, spaces
from knowhub.context.commit import checks, results
from knowhub.context.commit.archive_builder import SUMMARISED_MESSAGES, ArchiveBuilder
from knowhub.context.commit.candidate_pipeline import CandidatePipeline, Extracted, failed_calls
from knowhub.context.commit.context_writer import ContextWriter
from knowhub.context.commit.deciding import Deciding, Thought, counts
from knowhub.context.commit.parts import Part, message_of, new_parts, parts_of, said, standing
from knowhub.context.commit.policy_router import PolicyRouter
from knowhub.context.commit.recalled_texts import recalled_into
from knowhub.context.commit.relation_writer import RelationWriter
from knowhub.context.commit_model import CommitResult, SessionCommit
from knowhub.context.model import NODES, PARTS, MemoryContext
from knowhub.context.ports import ContextDirectories, ContextStore, ContextView
from knowhub.core import permissions
from knowhub.core.asking import Asking
from knowhub.core.messages import Message
from knowhub.core.operation import Committed, Decide, Draft, IdempotencyKey, Unchanged, is_live
from knowhub.core.request_context import RequestContext
from knowhub.core.revealed import without_revealed

_MOST_TRIES: Final = 3
_STALE: Final = "stale"


@dataclass(frozen=True, slots=True)
class Stages:
    """What carries out plans; a test may watch."""

    archives: ArchiveBuilder | None = None
    writer: Callable[[ContextView], ContextWriter] = ContextWriter
    relations: Callable[[ContextWriter], RelationWriter] = RelationWriter


class CommitCoordinator:
    """Commits sessions to a store that makes every decision durable before it is acknowledged.

    What takes time, a model above all, is done before the decision; the decision itself plans on the newest rows.
    """

    def __init__(
        self,
        store: ContextStore,
        pipeline: CandidatePipeline,
        router: PolicyRouter,
        directories: ContextDirectories,
        stages: Stages | None = None,
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._router = router
        self._directories = directories
        self._stages = stages or Stages()
        self._archives = self._stages.archives or ArchiveBuilder(pipeline.reader, pipeline.find_secrets)

    async def commit(
        self, ctx: RequestContext, commit: SessionCommit, key: IdempotencyKey | None = None
    ) -> CommitResult:
        """Keep what is new of a session, and what that says that is worth remembering.

        Messages in which nothing stands, such as bare tool calls, are counted and not kept. Raises InvalidInput,
        Forbidden for a reader, Conflict for a message whose id is that of another, and as the store's commit.
        """
        permissions.check_may_write(ctx)
        checks.check_commit(commit)
        commit = replace(commit, messages=without_revealed(commit.messages))
        whose = spaces.memory_context(ctx, commit.session_id, commit.trace_id)
        checks.check_uris(spaces.session_uri(whose), commit.messages)
        done = await self._store.replayed(ctx.account, key)
        if done is not None:
            return results.result_of(done.operation, whose, replayed=True)
        await self._store.refresh()
        view, told = self._store.view(ctx.account), said(commit.messages)
        parts = parts_of(view, spaces.session_uri(whose), told)
        if not commit.used_tools and not new_parts(view, parts):
            bare = Thought(told, parts, results.archive_of(whose, None, ()), Extracted())
            return self._unchanged(ctx, commit, whose, bare)
        asking = self._pipeline.asking() if commit.options.extract else None
        thought = await self._think(ctx, commit, whose, parts, asking)
        if commit.options.dry_run:
            return self._preview(ctx, commit, whose, thought)
        for tries in range(1, _MOST_TRIES + 1):
            outcome = await self._store.commit(ctx.account, ctx.actor, self._decide(commit, whose, thought), key)
            if isinstance(outcome, Committed):
                return await self._committed(ctx, whose, outcome)
            if outcome.answer is not _STALE:
                break
            # Somebody else wrote to this session meanwhile: what it was about is said anew, by its own sentences.
            thought = await self._summed_up(ctx, commit, whose, thought, is_last=tries == _MOST_TRIES - 1)
        return self._unchanged(ctx, commit, whose, thought)

    async def _think(
        self,
        ctx: RequestContext,
        commit: SessionCommit,
        whose: MemoryContext,
        parts: Sequence[Part],
        asking: Asking | None,
    ) -> Thought:
        """Do what needs no lock: summarise the session, and extract what its new messages say."""
        view = self._store.view(ctx.account)
        fresh = new_parts(view, parts)
        standing, seen = _messages_of(view, spaces.session_uri(whose))
        messages = [*standing, *(part.message for part in fresh)]
        archive = await self._archives.build_archive(
            whose, messages, commit.used_contexts, commit.used_tools, asking if fresh else None
        )
        extracted = Extracted()
        if commit.options.extract:
            known = recalled_into(view, ctx, commit.used_contexts)
            extracted = await self._pipeline.extract_candidates(
                whose, archive, [part.message for part in fresh], known, asking
            )
        calls = asking.calls if asking is not None else []
        degraded = ("llm",) if failed_calls(calls) else ()
        return Thought(
            said(commit.messages), parts, archive, extracted, seen | {part.uri for part in fresh}, calls, degraded
        )

    async def _summed_up(
        self, ctx: RequestContext, commit: SessionCommit, whose: MemoryContext, thought: Thought, *, is_last: bool
    ) -> Thought:
        view = self._store.view(ctx.account)
        standing, seen = _messages_of(view, spaces.session_uri(whose))
        fresh = new_parts(view, thought.newest(view).parts)
        messages = [*standing, *(part.message for part in fresh)]
        archive = await self._archives.build_archive(whose, messages, commit.used_contexts, commit.used_tools)
        return thought.with_archive(archive, None if is_last else seen | {part.uri for part in fresh})

    def _decide(self, commit: SessionCommit, whose: MemoryContext, thought: Thought) -> Decide[ContextView]:
        deciding = self._deciding(whose, thought)

        def decide(view: ContextView) -> Draft | Unchanged:
            if thought.is_stale(view):
                return Unchanged(_STALE)
            decided = deciding.decide(view)
            return Unchanged() if decided is None else decided.draft(_received(commit, thought))

        return decide

    def _deciding(self, whose: MemoryContext, thought: Thought) -> Deciding:
        return Deciding(whose, thought, self._router, self._stages.writer, self._stages.relations)

    async def _committed(self, ctx: RequestContext, whose: MemoryContext, outcome: Committed) -> CommitResult:
        answer = results.result_of(outcome.operation, whose, replayed=outcome.replayed)
        is_written = outcome.replayed or await self._directories.project(ctx.account, outcome.operation)
        # Where a directory has to wait, its keeper brings it up: the log has it already.
        return answer if is_written else results.with_degraded(answer, "directories")

    def _preview(
        self, ctx: RequestContext, commit: SessionCommit, whose: MemoryContext, thought: Thought
    ) -> CommitResult:
        """Return what would be written, with all that it would say."""
        view = self._store.view(ctx.account)
        decided = self._deciding(whose, thought).decide(view)
        if decided is None:
            return self._unchanged(ctx, commit, whose, thought)
        archive = results.archive_of(whose, decided.session_row, [part.message for part in decided.fresh])
        return CommitResult(
            archive=archive,
            write_results=decided.results,
            outbox_events=results.events_to_be(view, whose, decided.writes),
            stats=decided.stats(_received(commit, thought)),
            status="dry_run",
            plans=decided.plans if ctx.unrestricted else results.as_seen(decided.plans, edits.seeing(view, ctx)),
            degraded=thought.degraded,
        )

    def _unchanged(
        self, ctx: RequestContext, commit: SessionCommit, whose: MemoryContext, thought: Thought
    ) -> CommitResult:
        view = self._store.view(ctx.account)
        row = view.get(NODES, spaces.session_uri(whose))
        archive = results.archive_of(whose, row if is_live(row) else None, ())
        stats = _received(commit, thought)
        stats["messages"] |= counts(standing(view, part) for part in thought.newest(view).parts)
        status = "dry_run" if commit.options.dry_run else "unchanged"
        return CommitResult(archive, [], [], stats, status, degraded=thought.degraded)


def _messages_of(view: ContextView, session_uri: str) -> tuple[list[Message], frozenset[str]]:
    """Return the newest messages of a session, and the URIs of all of them."""
    heads = view.context_parts(session_uri)
    rows = (view.get(PARTS, head.uri) for head in heads[-SUMMARISED_MESSAGES:])
    return [message_of(row) for row in rows if row is not None], frozenset(head.uri for head in heads)


def _received(commit: SessionCommit, thought: Thought) -> dict[str, Any]:
    """Return what is counted before anything is decided."""
    blank = len(commit.messages) - len(thought.parts)
    return {
        "messages": {"received": len(commit.messages), "blank": blank},
        "extractors": dict(thought.extracted.extractors),
        "candidates": len(thought.extracted.candidates),
        "dropped": dict(thought.extracted.dropped),
    }
