"""What a language model decides about the keyword tree, and the default answer where it fails."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Any, TypeVar

from knowhub.core.background_writes import NoteCalls, discard_calls
from knowhub.core.language_models import ChatFailed, ChatModel, ChatRequest
from knowhub.core.model_calls import ModelConversation, NumberedChoices, list_pointers, short_text
from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.keywords.cache import NO_CACHE, RecentMatchesByReader, ResultCache
from knowhub.keywords.model import ROOT_ID, NewKeyword, Node, RelationType, TreeOptions
from knowhub.keywords.search import prompts
from knowhub.keywords.search.candidates import VisibleTree
from knowhub.keywords.search.descent import Descent, DescentResult, ViewOf
from knowhub.keywords.search.prompts import MAX_NAME, Goal, ModelAnswer, PromptCandidate, parse_reason

NO_MODEL = "exact_miss_no_llm"
MAX_SUGGESTED_NAMES = 5
_MAX_LINKS = 1_000


class DedupAction(StrEnum):
    """What to do with a new keyword whose name is taken."""

    ALIAS_OF = "alias_of"
    MERGE = "merge"
    CREATE_NEW = "create_new"


@dataclass(frozen=True, slots=True)
class HomonymChoice(ModelAnswer):
    """Which of several keywords of one name is meant; `node_id` is None if undecided."""

    node_id: str | None = None


@dataclass(frozen=True, slots=True)
class DedupDecision(ModelAnswer):
    """What to do with a new keyword; `node_id` is None only with CREATE_NEW."""

    action: DedupAction = DedupAction.CREATE_NEW
    node_id: str | None = None


@dataclass(frozen=True, slots=True)
class LinkChoices(ModelAnswer):
    """The keywords of an info, and up to five names of keywords that do not exist yet.

    `unknown_targets` counts links to what was not shown.
    """

    links: Sequence[tuple[str, RelationType]] = ()
    suggested_names: Sequence[str] = ()
    unknown_targets: int = 0


AnswerT = TypeVar("AnswerT", bound=ModelAnswer)


class KeywordAgent:
    """Asks a model to choose among the keywords that it is shown.

    Nothing here writes, and nothing raises for a model's answer: a failed question has a default answer with `failure`.
    An answer that names keywords, but only ones that were not shown, has failed.
    Every answer carries its calls; `record_calls` records those of a cancelled descent. The same question about
    the same keywords is asked once while its answer is in the cache.
    """

    def __init__(
        self,
        chat: ChatModel | None,
        recents: RecentMatchesByReader,
        options: TreeOptions,
        record_calls: NoteCalls = discard_calls,
        cache: ResultCache = NO_CACHE,
    ) -> None:
        self._chat = chat
        self._recents = recents
        self._options = options
        self._cache = cache
        self.record_calls = record_calls

    @property
    def available(self) -> bool:
        """Return whether a model is configured."""
        return self._chat is not None

    async def descend(self, ctx: RequestContext, views: ViewOf, goal: Goal, budget_s: float) -> DescentResult:
        """Walk down the tree with the model; `budget_s` is for all rounds together."""
        if self._chat is None:
            return DescentResult("missing", suggested_parent_id=ROOT_ID, reason=NO_MODEL)
        conversation = ModelConversation(self._chat, budget_s)
        descent = Descent(ctx, conversation, self._recents, self._options, self._cache)
        try:
            return await descent.run(views, goal)
        except asyncio.CancelledError:
            self.record_calls(ctx, conversation.calls)
            raise

    async def disambiguate(
        self, ctx: RequestContext, view: View, query: str, nodes: Sequence[Node], budget_s: float
    ) -> HomonymChoice:
        """Choose which keyword of one name the query means."""
        shown = self._list_candidates(VisibleTree(view, ctx), nodes)
        key = f"choose:{ctx.account}:{blake2b(repr((query, shown)).encode('utf-8', 'replace')).hexdigest()}"
        cached: HomonymChoice | None = self._cache.get(key)
        if cached is not None:
            return cached
        question = prompts.disambiguate(query, shown)
        chosen = await self.ask(question, _list_ids(shown), budget_s, _parse_choice, HomonymChoice())
        if chosen.failure is None and chosen.node_id is not None:
            self._cache.put(key, replace(chosen, calls=()))
        return chosen

    async def dedup_check(
        self, ctx: RequestContext, view: View, new: NewKeyword, nodes: Sequence[Node], budget_s: float
    ) -> DedupDecision:
        """Decide whether a new keyword duplicates one of these; CREATE_NEW if in doubt."""
        visible_tree = VisibleTree(view, ctx)
        shown = self._list_candidates(visible_tree, nodes)
        parent = visible_tree.get_node(new.parent_id) if new.parent_id not in (None, ROOT_ID) else None
        parent_path = visible_tree.format_path(parent) if parent is not None else ""
        question = prompts.dedup_check(new, parent_path, shown)
        return await self.ask(question, _list_ids(shown), budget_s, _parse_dedup, DedupDecision())

    async def link_info(
        self, ctx: RequestContext, view: View, content: str, nodes: Sequence[Node], budget_s: float
    ) -> LinkChoices:
        """Choose which of these keywords an info belongs to."""
        shown = self._list_candidates(VisibleTree(view, ctx), nodes)
        question = prompts.link_info(content, shown)
        return await self.ask(question, _list_ids(shown), budget_s, _parse_link_choices, LinkChoices())

    async def ask(
        self,
        question: ChatRequest,
        choice_ids: Sequence[str],
        budget_s: float,
        parse: Callable[[Mapping[str, Any], NumberedChoices], AnswerT | None],
        default: AnswerT,
    ) -> AnswerT:
        """Ask about numbered choices; return the answer as `parse` reads it, or `default` with the failure."""
        if self._chat is None:
            return replace(default, reason=NO_MODEL)
        conversation, choices = ModelConversation(self._chat, budget_s), NumberedChoices(choice_ids)
        try:
            answer = await conversation.ask(question, choices.by_idx, lambda said: parse(said, choices))
        except ChatFailed as failed:
            failure = failed.reason.value
            return replace(default, reason=failure, calls=conversation.calls, failure=failure)
        return replace(answer, calls=conversation.calls)

    def _list_candidates(self, visible_tree: VisibleTree, nodes: Sequence[Node]) -> list[PromptCandidate]:
        existing = [node for node in nodes if visible_tree.is_visible(node) and node.id != ROOT_ID]
        return [visible_tree.make_candidate(node, described=True) for node in existing[: self._options.max_candidates]]


def _list_ids(shown: Sequence[PromptCandidate]) -> list[str]:
    return [candidate.id for candidate in shown]


def _parse_choice(answer: Mapping[str, Any], choices: NumberedChoices) -> HomonymChoice | None:
    node_id = choices.pick(answer.get("node_id"))
    if node_id is None and list_pointers(answer.get("node_id")):
        return None
    return HomonymChoice(node_id, reason=parse_reason(answer))


def _parse_dedup(answer: Mapping[str, Any], choices: NumberedChoices) -> DedupDecision | None:
    node_id, reason = choices.pick(answer.get("node_id")), parse_reason(answer)
    action = next((action for action in DedupAction if action == answer.get("action")), DedupAction.CREATE_NEW)
    if action is DedupAction.CREATE_NEW:
        return DedupDecision(reason=reason)
    if node_id is None:
        return None if list_pointers(answer.get("node_id")) else DedupDecision(reason=reason)
    return DedupDecision(action, node_id, reason=reason)


def _parse_link_choices(answer: Mapping[str, Any], choices: NumberedChoices) -> LinkChoices | None:
    if not isinstance(answer.get("links"), list):
        return None
    links: dict[str, RelationType] = {}
    unknown_targets = 0
    items = [item for item in list_pointers(answer.get("links"))[:_MAX_LINKS] if isinstance(item, Mapping)]
    for item in items:
        keyword_id = choices.pick(item.get("keyword_id"))
        if keyword_id is not None:
            # The chosen keyword is kept; an unknown relation becomes the weakest.
            said = short_text(item.get("relation"), MAX_NAME).upper()
            links.setdefault(keyword_id, next((kind for kind in RelationType if kind == said), RelationType.RELATED))
        else:
            unknown_targets += bool(list_pointers(item.get("keyword_id")))
    if unknown_targets and not links:
        return None
    texts = (short_text(item, MAX_NAME) for item in list_pointers(answer.get("suggested_names")))
    names = list(dict.fromkeys(name for name in texts if name))[:MAX_SUGGESTED_NAMES]
    return LinkChoices(list(links.items()), names, unknown_targets, reason=parse_reason(answer))
