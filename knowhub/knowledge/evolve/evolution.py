"""Knowledge evolution (知识进化): a language model rewrites the content of a record from feedback in words.

Words that no model has used are kept with the record. `apply_pending_feedback` gives them to a model that came.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowhub.core import permissions
from knowhub.core.background_writes import NoteCalls, discard_calls
from knowhub.core.errors import Conflict, Forbidden, KnowHubError
from knowhub.core.language_models import ChatFailed, ChatModel
from knowhub.core.model_calls import ModelConversation, short_text
from knowhub.core.operation import Draft, HistoryStore, IdempotencyKey, Operation, Row, Unchanged, View, next_of
from knowhub.core.owned_rows import SavedRow
from knowhub.core.request_context import RequestContext, local_context
from knowhub.knowledge import record_rules
from knowhub.knowledge.evidence import (
    MAX_PENDING_FEEDBACK,
    Voter,
    list_pending_feedback,
    with_feedback,
    with_pending_feedback,
)
from knowhub.knowledge.evolve import prompts
from knowhub.knowledge.model import Feedback
from knowhub.knowledge.table import list_with_pending_feedback
from knowhub.knowledge.visibility import get_current_row, redact_row

OP = "evolve_knowledge"
MAX_CONTENT_CHARS = 100_000
_MAX_COMPARED_LINES = 2_000
_MAX_SUMMARY = 500
_ROUNDS = 2
# A model that is down or answers junk is not asked for every record.
_MAX_FAILURES = 3
_KEPT = "the words are kept, and a model will use them; the content stays as it is"
_NO_MODEL = f"there is no language model; {_KEPT}"
_OLDEST_DROPPED = f"; the oldest are dropped: at most {MAX_PENDING_FEEDBACK} are kept"


@dataclass(frozen=True, slots=True)
class EvolutionResult:
    """The record, and the fields of the answer beside it: `evolved`, `diff`, `degraded`, `detail`.

    `diff` is a unified diff; None if the content did not change.
    """

    saved: SavedRow
    as_answer: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _RecordRewrite:
    """The rewritten content of a record; `content` is None if the model failed, or if there is none.

    `words` are those that the model was given: what was kept, and the new ones last.
    """

    task: str
    before: str
    words: Sequence[str]
    content: str | None = None
    summary: str = _NO_MODEL
    degraded: Sequence[str] = ()
    calls: Sequence[Row] = ()

    def is_current(self, row: Row) -> bool:
        """Return whether the row has the text that the model saw. New evidence does not matter."""
        return self.content is None or (row["task"], row["content"]) == (self.task, self.before)

    def select_pending(self, row: Row, new: str | None) -> list[str]:
        """Return the words that a model has still to use."""
        if self.content is None:
            return _join_words(row, new)
        return [words for words in list_pending_feedback(row) if words not in self.words]

    @property
    def has_changed(self) -> bool:
        return self.content is not None and self.content != self.before

    def as_answer(self) -> dict[str, Any]:
        """Return the fields of the answer beside the record."""
        diff = _make_diff(self.before, self.content) if self.content is not None and self.has_changed else None
        return {
            "evolved": self.has_changed,
            "diff": diff,
            "degraded": list(self.degraded),
            "detail": self.summary,
        }


class Evolution:
    """Asks a model to rewrite the content of a record from feedback. The answer can change only the content.

    `record_calls(ctx, calls)` records the calls of an evolution that writes nothing; it must not raise.
    """

    def __init__(
        self,
        store: HistoryStore,
        chat: ChatModel | None,
        budget_s: float,
        record_calls: NoteCalls = discard_calls,
    ) -> None:
        self._store = store
        self._chat = chat
        self._budget_s = budget_s
        self._record_calls = record_calls

    async def evolve(
        self,
        ctx: RequestContext,
        knowledge_id: str,
        feedback: Feedback,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> EvolutionResult:
        """Add the feedback and rewrite the content in one operation, also from words that were kept.

        Without a model, or if it fails, the content stays, the words are kept and the other feedback counts. Raises
        NotFound, Forbidden for everyone but the owner, VersionConflict, and Conflict if the text keeps changing.
        """
        permissions.check_can_write(ctx)
        done = await self._store.find_replay(ctx.account, key)
        if done is not None:
            return self._read_result(ctx, done.operation)
        for _ in range(_ROUNDS):
            await self._store.refresh(ctx.account)
            row = _load_for_rewrite(self._store.view(ctx.account), ctx, knowledge_id, expected)
            rewrite = await self._rewrite(row, feedback.words)
            try:
                return await self._commit(ctx, knowledge_id, feedback, rewrite, (expected, key))
            except _RecordChanged:
                continue
        raise Conflict("the text of this record changed while the model rewrote it, twice; read it and try again")

    async def apply_pending_feedback(self, accounts: Iterable[str]) -> None:
        """Rewrite the records that have kept words. It ends early if the model fails for three of them."""
        waiting = [(name, item) for name in accounts for item in list_with_pending_feedback(self._store.view(name))]
        failures = 0
        for account, summary in waiting:
            if failures == _MAX_FAILURES:
                return
            try:
                done = await self.evolve(local_context(summary.owner, account), summary.id, Feedback())
                failures += bool(done.as_answer["degraded"])
            except KnowHubError:
                # The record was deleted or changed meanwhile, or nothing can be written now. The words stay.
                failures += 1

    async def _rewrite(self, row: Row, new: str | None) -> _RecordRewrite:
        words = _join_words(row, new)
        rest = _OLDEST_DROPPED if len(words) > MAX_PENDING_FEEDBACK else ""
        unchanged = _RecordRewrite(row["task"], row["content"], words, summary=f"{_NO_MODEL}{rest}")
        if self._chat is None or not words:
            return unchanged
        conversation = ModelConversation(self._chat, self._budget_s)
        try:
            question = prompts.make_evolve_question(row["task"], row["content"], "\n".join(words))
            content, summary = await conversation.ask(question, {}, lambda answer: parse_text(answer, row["content"]))
        except ChatFailed as failed:
            detail = f"the language model gave no usable answer ({short_text(failed.detail, _MAX_SUMMARY)})"
            return replace(unchanged, summary=f"{detail}; {_KEPT}{rest}", degraded=["llm"], calls=conversation.calls)
        return replace(unchanged, content=content, summary=summary, calls=conversation.calls)

    async def _commit(
        self,
        ctx: RequestContext,
        knowledge_id: str,
        feedback: Feedback,
        rewrite: _RecordRewrite,
        condition: tuple[int | None, IdempotencyKey | None],
    ) -> EvolutionResult:
        expected, key = condition

        def decide(view: View) -> Draft | Unchanged:
            row = _load_for_rewrite(view, ctx, knowledge_id, expected)
            if not rewrite.is_current(row):
                raise _RecordChanged
            after = with_feedback(row, feedback, view.now, Voter(ctx.actor))
            after = with_pending_feedback(after, rewrite.select_pending(row, feedback.words), row, view.now)
            if rewrite.has_changed:
                after = next_of({**after, "content": rewrite.content}, row, view.now)
            if after is row:
                return Unchanged(row)
            op = OP if rewrite.has_changed else "update_knowledge"
            return Draft(op, [record_rules.write(after)], reply=rewrite.as_answer(), agent_io=rewrite.calls or None)

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Unchanged):
            self._record_calls(ctx, rewrite.calls)
            row = redact_row(self._store.view(ctx.account), ctx, outcome.answer)
            return EvolutionResult(SavedRow(row, None), rewrite.as_answer())
        return self._read_result(ctx, outcome.operation)

    def _read_result(self, ctx: RequestContext, operation: Operation) -> EvolutionResult:
        row = redact_row(self._store.view(ctx.account), ctx, operation.changes[0].after)
        return EvolutionResult(SavedRow(row, operation.operation_id), operation.reply or {})


def _make_diff(old: str, new: str) -> str:
    before, after = old.splitlines(), new.splitlines()
    # Finding the common lines takes quadratic time: of long contents all lines are removed and added.
    if len(before) + len(after) > _MAX_COMPARED_LINES:
        removed, added = (f"-{line}" for line in before), (f"+{line}" for line in after)
        return "\n".join(["--- before", "+++ after", *removed, *added])
    return "\n".join(difflib.unified_diff(before, after, "before", "after", lineterm=""))


def parse_text(answer: Mapping[str, Any], before: str) -> tuple[str, str] | None:
    """Return the new content and a summary of the change; None for an answer that is no valid content."""
    content = answer.get("content")
    if not isinstance(content, str) or not content.strip():
        return None
    if not prompts.can_store(content, max(MAX_CONTENT_CHARS, len(before))):
        return None
    return content, short_text(answer.get("summary_of_change"), _MAX_SUMMARY)


def _join_words(row: Row, new: str | None) -> list[str]:
    return list(dict.fromkeys([*list_pending_feedback(row), *([new] if new else [])]))


class _RecordChanged(KnowHubError):
    """Raised by a decision when the text changed since the model saw it; nothing is written."""

    def __init__(self) -> None:
        super().__init__("the text has changed")


def _load_for_rewrite(view: View, ctx: RequestContext, knowledge_id: str, expected: int | None) -> Row:
    row = get_current_row(view, ctx, knowledge_id, expected)
    if not ctx.can_edit(row["owner"]):
        raise Forbidden("only the owner of a record may evolve it; add a helpful or harmful case instead")
    return row
