"""The keyword tree's agent: each thing that a language model decides here, and what holds when it fails."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from knowhub.core.asking import Asking
from knowhub.core.chat import ChatFailed, ChatModel, Question
from knowhub.core.choices import Choices, pointed_at, short_text
from knowhub.core.operation import Row
from knowhub.core.request_context import RequestContext
from knowhub.keywords import prompts, proposals
from knowhub.keywords.agent_decision import Intent
from knowhub.keywords.audit import Note, unkept
from knowhub.keywords.candidates import Eyes
from knowhub.keywords.descent import Descended, Descent, PickCache, ViewOf
from knowhub.keywords.model import ROOT_ID, NewKeyword, Node, Options, RelationType
from knowhub.keywords.ports import KeywordView
from knowhub.keywords.prompts import Candidate
from knowhub.keywords.proposals import Proposals
from knowhub.keywords.recent import Recents

NO_MODEL = "exact_miss_no_llm"
MAX_SUGGESTED_NAMES = 5
_MAX_NAME = 200
_MAX_REASON = 500
_MAX_LINKS = 1_000

AnswerT = TypeVar("AnswerT")


class DedupAction(StrEnum):
    """What becomes of a keyword whose name is taken (KT-220)."""

    ALIAS_OF = "alias_of"
    MERGE = "merge"
    CREATE_NEW = "create_new"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which of several keywords of a name is meant; `node_id` None when undecided or failed."""

    node_id: str | None
    reason: str = ""
    calls: Sequence[Row] = ()
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class DedupDecision:
    """What to do with a new keyword; `node_id` is None only with CREATE_NEW, which also stands for a failure."""

    action: DedupAction
    node_id: str | None = None
    reason: str = ""
    calls: Sequence[Row] = ()
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class LinkChoices:
    """Where an info belongs, and up to five names of keywords that are not there yet."""

    links: Sequence[tuple[str, RelationType]] = ()
    suggested_names: Sequence[str] = ()
    reason: str = ""
    calls: Sequence[Row] = ()
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a new keyword goes; the root when nothing better was found (KT-154…156).

    After a failure it is where the model stood by then (KT-133).
    """

    parent_id: str
    reason: str = ""
    calls: Sequence[Row] = ()
    failure: str | None = None


class KeywordAgent:
    """Asks a model, and answers with what it chose among what it was shown, or with the name of its failure.

    Nothing here raises for what a model does, and nothing writes. Every outcome carries the calls that it took; `note`
    keeps those of a descent that is broken off, and so has none.
    """

    def __init__(
        self,
        chat: ChatModel | None,
        recents: Recents,
        options: Options,
        decisions: PickCache | None = None,
        note: Note = unkept,
    ) -> None:
        self._chat = chat
        self._recents = recents
        self._options = options
        self._decisions = decisions
        self.note = note

    @property
    def available(self) -> bool:
        """Tell whether there is a model to ask."""
        return self._chat is not None

    async def descend(
        self, ctx: RequestContext, views: ViewOf, query: str, intent: Intent, budget_s: float
    ) -> Descended:
        """Walk the tree with the model (KT.7). `budget_s` is for all rounds together."""
        if self._chat is None:
            return Descended("missing", suggested_parent_id=ROOT_ID, reason=NO_MODEL)
        asking = Asking(self._chat, budget_s)
        descent = Descent(ctx, asking, self._recents.of(ctx), self._options)
        try:
            return await descent.run(views, query, intent, self._decisions)
        except asyncio.CancelledError:
            self.note(ctx, asking.calls)
            raise

    async def suggest_parent(self, ctx: RequestContext, views: ViewOf, name: str, budget_s: float) -> Placement:
        """Return under which keyword a new one of this name belongs."""
        found = await self.descend(ctx, views, name, Intent.SUGGEST_PARENT, budget_s)
        # An ambiguous end has neither, and nobody is asked back (KT-156).
        parent_id = found.node_id or found.suggested_parent_id or ROOT_ID
        return Placement(parent_id, found.reason, found.calls, found.failure)

    async def disambiguate(
        self, ctx: RequestContext, view: KeywordView, query: str, nodes: Sequence[Node], budget_s: float
    ) -> Chosen:
        """Return which keyword of the same name the query means (KT-162)."""
        shown = self._shown(Eyes(view, ctx), nodes)
        choices = _choices(shown)

        def read(answer: Mapping[str, Any]) -> Chosen:
            return Chosen(choices.pick(answer.get("node_id")), _reason(answer))

        chosen, calls, failure = await self._asked(prompts.disambiguate(query, shown), choices, budget_s, read)
        return Chosen(None, failure or NO_MODEL, calls, failure) if chosen is None else replace(chosen, calls=calls)

    async def dedup_check(
        self, ctx: RequestContext, view: KeywordView, new: NewKeyword, nodes: Sequence[Node], budget_s: float
    ) -> DedupDecision:
        """Return whether a new keyword is one that is there already; CREATE_NEW when nothing else is sure (C-29)."""
        eyes = Eyes(view, ctx)
        shown = self._shown(eyes, nodes)
        choices = _choices(shown)
        parent = eyes.node(new.parent_id) if new.parent_id not in (None, ROOT_ID) else None
        parent_path = eyes.candidate(parent).path if parent is not None else ""
        question = prompts.dedup_check(new, parent_path, shown)
        decision, calls, failure = await self._asked(
            question, choices, budget_s, lambda answer: _dedup_decision(answer, choices)
        )
        if decision is None:
            return DedupDecision(DedupAction.CREATE_NEW, None, failure or NO_MODEL, calls, failure)
        return replace(decision, calls=calls)

    async def link_info(
        self, ctx: RequestContext, view: KeywordView, content: str, nodes: Sequence[Node], budget_s: float
    ) -> LinkChoices:
        """Return to which of these keywords an info belongs, each once (KT-237)."""
        shown = self._shown(Eyes(view, ctx), nodes)
        choices = _choices(shown)
        question = prompts.link_info(content, shown)
        chosen, calls, failure = await self._asked(
            question, choices, budget_s, lambda answer: _link_choices(answer, choices)
        )
        if chosen is None:
            return LinkChoices(reason=failure or NO_MODEL, calls=calls, failure=failure)
        return replace(chosen, calls=calls)

    async def propose(
        self, ctx: RequestContext, view: KeywordView, nodes: Sequence[Node], budget_s: float
    ) -> Proposals:
        """Return what would put these keywords in better order; nothing is changed (KT-245).

        At most `proposals.MAX_NODES` are shown; who has more asks in parts.
        """
        eyes = Eyes(view, ctx)
        there = [node for node in nodes[: proposals.MAX_NODES] if eyes.sees(node)]
        choices = Choices([node.id for node in there])
        question = prompts.reorganize(proposals.listed(eyes, there))
        proposed, calls, failure = await self._asked(
            question, choices, budget_s, lambda answer: proposals.read(answer, choices, eyes)
        )
        if proposed is None:
            return Proposals(reason=failure or NO_MODEL, calls=calls, failure=failure)
        return replace(proposed, calls=calls)

    async def _asked(
        self,
        question: Question,
        choices: Choices,
        budget_s: float,
        read: Callable[[Mapping[str, Any]], AnswerT | None],
    ) -> tuple[AnswerT | None, Sequence[Row], str | None]:
        # The answer as `read` understands it, its calls, and the name of the failure.
        if self._chat is None:
            return None, (), None
        asking = Asking(self._chat, budget_s)
        try:
            answer = await asking.ask(question, choices.by_idx, read)
        except ChatFailed as failed:
            return None, asking.calls, failed.reason.value
        return answer, asking.calls, None

    def _shown(self, eyes: Eyes, nodes: Sequence[Node]) -> list[Candidate]:
        there = [node for node in nodes if eyes.sees(node) and node.id != ROOT_ID]
        return [eyes.candidate(node, described=True) for node in there[: self._options.max_candidates]]


def _choices(shown: Sequence[Candidate]) -> Choices:
    return Choices([one.id for one in shown])


def _dedup_decision(answer: Mapping[str, Any], choices: Choices) -> DedupDecision:
    node_id = choices.pick(answer.get("node_id"))
    action = next((one for one in DedupAction if one == answer.get("action")), DedupAction.CREATE_NEW)
    if action is DedupAction.CREATE_NEW or node_id is None:
        return DedupDecision(DedupAction.CREATE_NEW, None, _reason(answer))
    return DedupDecision(action, node_id, _reason(answer))


def _link_choices(answer: Mapping[str, Any], choices: Choices) -> LinkChoices | None:
    if not isinstance(answer.get("links"), list):
        return None
    return LinkChoices(_links(answer, choices), _names(answer), _reason(answer))


def _links(answer: Mapping[str, Any], choices: Choices) -> list[tuple[str, RelationType]]:
    links: dict[str, RelationType] = {}
    for item in pointed_at(answer.get("links"))[:_MAX_LINKS]:
        if not isinstance(item, Mapping):
            continue
        keyword_id = choices.pick(item.get("keyword_id"))
        if keyword_id is not None:
            links.setdefault(keyword_id, _relation(item.get("relation")))
    return list(links.items())


def _relation(said: object) -> RelationType:
    # The choice of the keyword stands; what is no relation claims no more than the weakest one.
    named = short_text(said, _MAX_NAME).upper()
    return next((one for one in RelationType if one == named), RelationType.RELATED)


def _names(answer: Mapping[str, Any]) -> list[str]:
    said = (short_text(one, _MAX_NAME) for one in pointed_at(answer.get("suggested_names")))
    return list(dict.fromkeys(name for name in said if name))[:MAX_SUGGESTED_NAMES]


def _reason(answer: Mapping[str, Any]) -> str:
    return short_text(answer.get("reason"), _MAX_REASON)
