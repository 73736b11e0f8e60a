"""Knowledge evolution (知识进化): from feedback in words, a language model writes the content anew (KM-073)."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowhub.core import permissions
from knowhub.core.asking import Asking
from knowhub.core.chat import ChatFailed, ChatModel
from knowhub.core.choices import short_text
from knowhub.core.errors import Conflict, Forbidden, KnowHubError
from knowhub.core.operation import Draft, IdempotencyKey, Row, Unchanged
from knowhub.core.request_context import RequestContext
from knowhub.knowledge import decisions, prompts
from knowhub.knowledge.model import Feedback, Saved
from knowhub.knowledge.ports import KnowledgeStore, KnowledgeView
from knowhub.knowledge.shown import shown_row
from knowhub.knowledge.standing import standing_row
from knowhub.knowledge.votes import Ballot

OP = "evolve_knowledge"
MAX_CONTENT_CHARS = 100_000
_MAX_SUMMARY = 500
_ROUNDS = 2
_NO_MODEL = "there is no language model; the content stays as it is"


@dataclass(frozen=True, slots=True)
class Evolved:
    """The record, and what became of its content. `diff` is a unified diff; None where the content stays."""

    saved: Saved
    evolved: bool
    diff: str | None
    degraded: Sequence[str]
    detail: str

    @property
    def told(self) -> dict[str, Any]:
        """Return what an answer tells beside the record."""
        return {"evolved": self.evolved, "diff": self.diff, "degraded": list(self.degraded), "detail": self.detail}


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """What a model made of a record's text as it stood; `content` None where it failed or there is none."""

    task: str
    before: str
    content: str | None = None
    summary: str = _NO_MODEL
    degraded: Sequence[str] = ()
    calls: Sequence[Row] = ()

    def fits(self, row: Row) -> bool:
        """Tell whether the row still says what the model was shown. Evidence may have come meanwhile."""
        return self.content is None or (row["task"], row["content"]) == (self.task, self.before)

    @property
    def diff(self) -> str | None:
        if self.content is None or self.content == self.before:
            return None
        before, after = self.before.splitlines(), self.content.splitlines()
        return "\n".join(difflib.unified_diff(before, after, "before", "after", lineterm=""))


class Evolution:
    """Asks a model for a record's content in the light of feedback; its answer can change the content, and only that.

    `note(ctx, calls)` keeps the calls of an evolution that writes nothing; it must not fail.
    """

    def __init__(
        self,
        store: KnowledgeStore,
        chat: ChatModel | None,
        budget_s: float,
        note: Callable[[RequestContext, Sequence[Row]], None] | None = None,
    ) -> None:
        self._store = store
        self._chat = chat
        self._budget_s = budget_s
        self._note = note

    async def evolve(
        self,
        ctx: RequestContext,
        knowledge_id: str,
        feedback: Feedback,
        expected: int | None = None,
        key: IdempotencyKey | None = None,
    ) -> Evolved:
        """Give all of the feedback, its words too, in one operation (KM-073, KM-074).

        When the model fails, or there is none, the content stays and the rest of the feedback counts. Raises NotFound,
        Forbidden for anybody but the owner, VersionConflict, and Conflict where the text moves faster than it can be
        rewritten.
        """
        permissions.check_may_write(ctx)
        done = await self._store.replayed(ctx.account, key)
        if done is not None:
            row = shown_row(self._store.view(ctx.account), ctx, done.operation.changes[0].after)
            return _answer(row, done.operation.operation_id, done.operation.reply or {})
        for _ in range(_ROUNDS):
            await self._store.refresh()
            row = _evolvable(self._store.view(ctx.account), ctx, knowledge_id, expected)
            rewrite = await self._rewrite(row, feedback.words or "")
            try:
                return await self._give(ctx, knowledge_id, feedback, rewrite, (expected, key))
            except _Moved:
                continue
        raise Conflict("the text of this record changed while the model rewrote it, twice; read it and try again")

    async def _rewrite(self, row: Row, words: str) -> _Rewrite:
        shown = _Rewrite(row["task"], row["content"])
        if self._chat is None:
            return shown
        asking = Asking(self._chat, self._budget_s)
        try:
            question = prompts.evolve(row["task"], row["content"], words)
            content, summary = await asking.ask(question, {}, lambda answer: read(answer, row["content"]))
        except ChatFailed as failed:
            detail = f"the language model gave no usable answer ({short_text(failed.detail, _MAX_SUMMARY)})"
            return replace(shown, summary=f"{detail}; the content stays as it is", degraded=["llm"], calls=asking.calls)
        return replace(shown, content=content, summary=summary, calls=asking.calls)

    async def _give(
        self,
        ctx: RequestContext,
        knowledge_id: str,
        feedback: Feedback,
        rewrite: _Rewrite,
        asked: tuple[int | None, IdempotencyKey | None],
    ) -> Evolved:
        expected, key = asked

        def decide(view: KnowledgeView) -> Draft | Unchanged:
            row = _evolvable(view, ctx, knowledge_id, expected)
            if not rewrite.fits(row):
                raise _Moved
            ballot = Ballot(view, ctx)
            after = ballot.give(row, feedback)
            if rewrite.diff is not None:
                after = decisions.with_content(after, rewrite.content or "", row, view.now)
            if after is row:
                return Unchanged(row)
            op = OP if rewrite.diff is not None else "update_knowledge"
            return Draft(
                op, [decisions.write(after), *ballot.writes()], reply=_reply(rewrite), agent_io=rewrite.calls or None
            )

        outcome = await self._store.commit(ctx.account, ctx.actor, decide, key)
        if isinstance(outcome, Unchanged):
            if self._note is not None:
                self._note(ctx, rewrite.calls)
            return _answer(shown_row(self._store.view(ctx.account), ctx, outcome.answer), None, _reply(rewrite))
        operation = outcome.operation
        row = shown_row(self._store.view(ctx.account), ctx, operation.changes[0].after)
        return _answer(row, operation.operation_id, operation.reply or {})


def read(answer: Mapping[str, Any], before: str) -> tuple[str, str] | None:
    """Return the content, in place of the one before, and what was changed; None where no content can be so."""
    content = answer.get("content")
    if not isinstance(content, str) or not 0 < len(content) <= max(MAX_CONTENT_CHARS, len(before)):
        return None
    if "\0" in content or not content.strip():
        return None
    # A lone half of a surrogate pair is text that no file can hold: such an answer raises here.
    content.encode()
    return content, short_text(answer.get("summary_of_change"), _MAX_SUMMARY)


class _Moved(KnowHubError):
    """Raised by a decision, so that nothing is written, where the text is no more what the model was shown."""

    def __init__(self) -> None:
        super().__init__("the text has moved on")


def _evolvable(view: KnowledgeView, ctx: RequestContext, knowledge_id: str, expected: int | None) -> Row:
    row = standing_row(view, ctx, knowledge_id, expected)
    if not ctx.may_edit(row["owner"]):
        raise Forbidden("only the owner of a record may evolve it; add a helpful or harmful case instead")
    return row


def _reply(rewrite: _Rewrite) -> dict[str, Any]:
    return {
        "evolved": rewrite.diff is not None,
        "diff": rewrite.diff,
        "degraded": list(rewrite.degraded),
        "detail": rewrite.summary,
    }


def _answer(row: Row, operation_id: str | None, reply: Mapping[str, Any]) -> Evolved:
    return Evolved(
        Saved(row, operation_id),
        evolved=reply.get("evolved", False),
        diff=reply.get("diff"),
        degraded=reply.get("degraded", ()),
        detail=reply.get("detail", ""),
    )
