"""A session becomes memory: in one operation, however often it is sent."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from knowhub.context import uri
from knowhub.context.commit import commit_checks, results
from knowhub.context.commit.background_extraction import SessionExtraction
from knowhub.context.commit.decision import CommitDecider
from knowhub.context.commit.parts import SUMMARISED_MESSAGES, SessionState, list_messages, make_content_keys
from knowhub.context.commit.rule_extraction import list_recalled
from knowhub.context.commit_model import CommitResult, SessionCommit
from knowhub.context.model import MemoryContext
from knowhub.context.ports import ContextDirectories
from knowhub.context.reading import Reader
from knowhub.conversations.messages import Message, withhold_sealed_bodies
from knowhub.conversations.sentences import Fold
from knowhub.core import permissions
from knowhub.core.clock import CooperativePause
from knowhub.core.operation import Committed, IdempotencyKey, LongDecision, Store, View
from knowhub.core.request_context import RequestContext


class CommitCoordinator:
    """Commits sessions to a store that makes every decision durable before it is acknowledged.

    A commit reads the session (`parts`), prepares what takes long (`session_summary`, `rule_extraction`), decides on
    the newest rows (`decision`, `policies`, `context_writer`), and answers from its operation (`results`). A model is
    not asked: it reads the session in the background.
    """

    def __init__(
        self,
        store: Store,
        fold: Fold,
        directories: ContextDirectories,
        extraction: SessionExtraction | None = None,
    ) -> None:
        self._store = store
        self._fold = fold
        self._directories = directories
        self._extraction = extraction

    async def commit(
        self, ctx: RequestContext, commit: SessionCommit, key: IdempotencyKey | None = None
    ) -> CommitResult:
        """Keep what is new of a session, and what that says that is worth remembering.

        Empty messages, such as bare tool calls, are counted and not stored. Raises InvalidInput,
        Forbidden for a reader, Conflict for a message whose id is that of another, and as the store's commit.
        """
        permissions.check_can_write(ctx)
        whose = uri.memory_context(ctx, commit.session_id)
        commit_checks.check_ids(whose, commit.messages)
        commit = replace(commit, messages=await asyncio.to_thread(withhold_sealed_bodies, commit.messages))
        done = await self._store.find_replay(ctx.account, key)
        if done is not None:
            return await self._finish_commit(ctx, commit, whose, Committed(done.operation, replayed=True))
        await self._store.refresh(ctx.account)
        view = self._store.view(ctx.account)
        decider = await self._make_decider(ctx, commit, whose, view)
        state = decider.read_state(view)
        if commit.used_tools or state.fresh:
            stored = await _read_messages(view, state) if decider.needs_summary(state) else []
            await asyncio.to_thread(decider.prepare, state, stored)
            if not commit.options.dry_run:
                outcome = await self._store.commit(ctx.account, ctx.actor, LongDecision(decider.draft), key)
                if isinstance(outcome, Committed):
                    return await self._finish_commit(ctx, commit, whose, outcome)
        view = self._store.view(ctx.account)
        answer = results.preview_result(view, ctx, whose, decider.decide(view), dry_run=commit.options.dry_run)
        return await self._wait_for_model(ctx, commit, whose, answer)

    async def _make_decider(
        self, ctx: RequestContext, commit: SessionCommit, whose: MemoryContext, view: View
    ) -> CommitDecider:
        messages = [message for message in commit.messages if message.content.strip()]
        keys = await asyncio.to_thread(make_content_keys, messages)
        if not commit.options.extract:
            return CommitDecider(commit, whose, messages, keys, [], "not_asked", self._fold)
        reader: Reader = "by_rules" if self._extraction is None else "by_model"
        recalled = list_recalled(view, ctx, commit.used_contexts)
        return CommitDecider(commit, whose, messages, keys, recalled, reader, self._fold)

    async def _finish_commit(
        self, ctx: RequestContext, commit: SessionCommit, whose: MemoryContext, outcome: Committed
    ) -> CommitResult:
        """Write the directories of an operation, and answer from it."""
        answer = results.read_result(outcome.operation, whose, replayed=outcome.replayed)
        is_written = outcome.replayed or await self._directories.project(ctx.account, outcome.operation)
        # If a directory could not be written, the leader writes it later: the log has the operation.
        answer = answer if is_written else results.add_degraded(answer, "directories")
        return await self._wait_for_model(ctx, commit, whose, answer)

    async def _wait_for_model(
        self, ctx: RequestContext, commit: SessionCommit, whose: MemoryContext, answer: CommitResult
    ) -> CommitResult:
        """Wake the extraction, and wait for it if the caller asks for that."""
        if self._extraction is None or commit.options.dry_run:
            return answer
        self._extraction.wake()
        if not commit.wait or await self._extraction.wait(ctx.account, uri.session_uri(whose)):
            return answer
        return results.add_degraded(answer, "llm")


async def _read_messages(view: View, state: SessionState) -> Sequence[Message]:
    """Return the newest messages of a session, pausing for others."""
    messages: list[Message] = []
    pause = CooperativePause()
    for summary in state.stored[-SUMMARISED_MESSAGES:]:
        messages += list_messages(view, [summary])
        await pause.pause()
    return messages
