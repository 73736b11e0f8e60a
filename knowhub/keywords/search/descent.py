"""The descent: a model walks down the tree in a few rounds, choosing among the candidates that it is shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal, TypeAlias

from knowhub.core.language_models import ChatFailed, FailureReason
from knowhub.core.model_calls import ModelConversation, NumberedChoices
from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import rendering, tree
from knowhub.keywords.cache import NO_CACHE, RecentMatchesByReader, ResultCache
from knowhub.keywords.model import ROOT_ID, Node, TreeOptions
from knowhub.keywords.search import prompts
from knowhub.keywords.search.candidates import MORE_CHARS, MORE_NAMES, TreePage, VisibleTree
from knowhub.keywords.search.prompts import (
    AgentAction,
    AgentDecision,
    Goal,
    Intent,
    ModelAnswer,
    OutlineLine,
    PromptCandidate,
)

INVALID_JUMP = "invalid_jump"
_MAX_PATH_NAMES = 20
ViewOf: TypeAlias = Callable[[], View]
"""Gives the newest view each time: the tree may move while a model thinks."""


_CachedDecision: TypeAlias = tuple[AgentDecision, list[tuple[str, int]]]
"""A decision, and the version of each keyword that it names."""


@dataclass(frozen=True, slots=True)
class DescentResult(ModelAnswer):
    """The result of a descent.

    `path` has the ids from the root to the match. `candidates` are the possible matches of an ambiguous answer.
    `failure` is agent_failure, agent_timeout or invalid_jump, and is then also the `reason`.
    """

    outcome: Literal["matched", "missing", "ambiguous"]
    node_id: str | None = None
    path: Sequence[str] = ()
    candidates: Sequence[str] = ()
    suggested_parent_id: str | None = None
    suggested_name: str | None = None

    @property
    def parent_id(self) -> str:
        """Where a new keyword goes: below the match, else below the last keyword that was reached."""
        return self.node_id or self.suggested_parent_id or ROOT_ID


@dataclass(frozen=True, slots=True)
class _Cursor:
    """What is shown next: a page of the descendants of `starts`, from `offset`."""

    position: str = ROOT_ID
    starts: tuple[str, ...] = (ROOT_ID,)
    offset: int = 0
    jumped: frozenset[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class _PromptState:
    """What one round shows. `key` names the decision in the cache."""

    path: Sequence[Node]
    cursor: _Cursor
    page: TreePage
    candidates: Sequence[PromptCandidate | OutlineLine]
    key: str

    @property
    def choice_ids(self) -> list[str]:
        """The ids by idx: the candidates, then the current keyword if it is not the root."""
        current = [self.path[-1].id] if self.path[-1].id != ROOT_ID else []
        shown = [candidate.id for candidate in self.candidates]
        return shown + [keyword_id for keyword_id in current if keyword_id not in shown]

    @property
    def current_idx(self) -> int | None:
        """The idx of the current keyword; None at the root."""
        return None if self.path[-1].id == ROOT_ID else self.choice_ids.index(self.path[-1].id) + 1


class Descent:
    """One descent of one caller. All rounds share the deadline of the conversation.

    A cached decision is reused while the query and what it depends on are the same: the words' candidates, and
    the two levels below the current keyword. A new keyword deeper down is noticed when the entry expires.
    """

    def __init__(
        self,
        ctx: RequestContext,
        asking: ModelConversation,
        recents: RecentMatchesByReader,
        options: TreeOptions,
        cache: ResultCache = NO_CACHE,
    ) -> None:
        self._ctx = ctx
        self._asking = asking
        self._recents = recents
        self._options = options
        self._cache = cache

    async def run(self, views: ViewOf, goal: Goal) -> DescentResult:
        """Descend until the model decides or fails, or the rounds are used up.

        Never raises for an answer of the model.
        """
        ended = await self._run_rounds(views, goal)
        if ended.outcome == "matched":
            # From the root, so that the match becomes the newest.
            self._recents.add(self._ctx, [keyword_id for keyword_id in ended.path if keyword_id != ROOT_ID])
        return replace(ended, calls=tuple(self._asking.calls))

    async def _run_rounds(self, views: ViewOf, goal: Goal) -> DescentResult:
        visible_tree = VisibleTree(views(), self._ctx)
        cursor = _Cursor()
        for _ in range(max(self._options.max_rounds, 1)):
            shown = self._make_prompt(visible_tree, cursor, goal)
            try:
                decision = await self._decide(visible_tree, shown, goal)
            except ChatFailed as failed:
                return self._make_failure(VisibleTree(views(), self._ctx), shown, failed.reason.value)
            # Apply the choice to the current tree.
            visible_tree = VisibleTree(views(), self._ctx)
            if decision.action is AgentAction.MORE and shown.page.next_offset is not None:
                cursor = replace(cursor, offset=shown.page.next_offset)
                continue
            if decision.action is not AgentAction.JUMP:
                return self._make_result(visible_tree, shown, decision, goal.intent)
            ended = self._try_final_jump(visible_tree, shown, decision)
            if ended is not None:
                return ended
            position = tree.lowest_common_ancestor(visible_tree.view, decision.targets)
            jumped = cursor.jumped | {frozenset(decision.targets)}
            cursor = _Cursor(position, decision.targets, jumped=jumped)
        return self._make_failure(visible_tree, replace(shown, cursor=cursor), FailureReason.TIMEOUT.value)

    def _make_prompt(self, visible_tree: VisibleTree, cursor: _Cursor, goal: Goal) -> _PromptState:
        limit = self._options.max_candidates
        is_first = cursor.starts == (ROOT_ID,) and not cursor.jumped
        if cursor.offset:
            page = visible_tree.list_page(cursor.starts, MORE_NAMES, cursor.offset, MORE_CHARS)
        elif is_first:
            page = visible_tree.list_first_page(goal.near, self._recents.list_newest(self._ctx), limit)
        else:
            page = visible_tree.list_page(cursor.starts, limit)
        described = self._options.describe_candidates
        return _PromptState(
            path=visible_tree.list_path(cursor.position),
            cursor=cursor,
            page=page,
            candidates=(
                visible_tree.make_outline(page.nodes)
                if cursor.offset
                else [visible_tree.make_candidate(node, described=described) for node in page.nodes]
            ),
            key=self._make_key(visible_tree, cursor, page, goal),
        )

    def _make_key(self, visible_tree: VisibleTree, cursor: _Cursor, page: TreePage, goal: Goal) -> str:
        """Name a decision by the query and by what it depends on.

        That leaves out recent matches, what is deep, and what is near by meaning: vectors come in the background.
        """
        nodes = [*filter(None, map(visible_tree.get_node, goal.near.by_name)), *page.upper]
        shown = [(node.id, node.version, visible_tree.format_path(node)) for node in nodes]
        parts = (
            goal.intent.value,
            goal.normal_form or goal.text,
            goal.aliases,
            goal.description,
            cursor.starts,
            cursor.offset,
            shown,
        )
        reader = rendering.make_reader_key(self._ctx.visible)
        return f"decide:{self._ctx.account}:{reader}:{blake2b(repr(parts).encode('utf-8', 'replace')).hexdigest()}"

    async def _decide(self, visible_tree: VisibleTree, shown: _PromptState, goal: Goal) -> AgentDecision:
        cached: _CachedDecision | None = self._cache.get(shown.key)
        if cached is not None and cached[1] == _list_versions(visible_tree, cached[0].targets):
            return cached[0]
        choices = NumberedChoices(shown.choice_ids, also=[node.id for node in shown.path])
        names = [node.name for node in shown.path if node.id != ROOT_ID][-_MAX_PATH_NAMES:]
        has_more = shown.page.next_offset is not None
        question = prompts.pick_branch(goal, names, shown.candidates, shown.current_idx, has_more=has_more)
        decision = await self._asking.ask(question, choices.by_idx, lambda data: prompts.parse_decision(data, choices))
        if not decision.has_unknown_targets:
            self._cache.put(shown.key, (decision, _list_versions(visible_tree, decision.targets)))
        return decision

    def _make_result(
        self, visible_tree: VisibleTree, shown: _PromptState, decision: AgentDecision, intent: Intent
    ) -> DescentResult:
        if decision.action in {AgentAction.MISSING, AgentAction.MORE}:
            # A model that wants more where there is no more has found nothing.
            return self._make_missing(visible_tree, shown, decision)
        found = _list_existing(visible_tree, decision.targets)
        if intent is Intent.SEARCH or decision.action is not AgentAction.MATCH:
            # The root is never the answer of a search.
            found = [keyword_id for keyword_id in found if keyword_id != ROOT_ID]
        if found:
            return _make_found(visible_tree, found, decision)
        # An answer without targets means that nothing fits; unknown targets are a failure.
        if decision.has_unknown_targets or decision.targets:
            return self._make_failure(visible_tree, shown, FailureReason.FAILURE.value)
        return self._make_missing(visible_tree, shown, decision)

    def _try_final_jump(
        self, visible_tree: VisibleTree, shown: _PromptState, decision: AgentDecision
    ) -> DescentResult | None:
        targets = decision.targets
        if not targets and not decision.has_unknown_targets:
            # A jump without targets means that nothing fits.
            return self._make_missing(visible_tree, shown, decision)
        if decision.has_unknown_targets or self._is_invalid_jump(visible_tree, shown, targets):
            return self._make_failure(visible_tree, shown, INVALID_JUMP)
        if ROOT_ID in targets or not all(visible_tree.is_leaf(keyword_id) for keyword_id in targets):
            return None
        # A jump to a leaf is a match.
        return _make_found(visible_tree, targets, decision)

    def _is_invalid_jump(self, visible_tree: VisibleTree, shown: _PromptState, targets: Sequence[str]) -> bool:
        """Return whether a jump goes to a deleted keyword, or shows nothing new.

        A jump back up the path is allowed once: the same jump twice is a circle.
        """
        if len(_list_existing(visible_tree, targets)) < len(targets):
            return True
        if set(targets) == set(shown.cursor.starts) or frozenset(targets) in shown.cursor.jumped:
            return True
        below = visible_tree.list_page(targets, self._options.max_candidates).nodes
        return bool(below) and {node.id for node in below} == {candidate.id for candidate in shown.candidates}

    def _make_missing(self, visible_tree: VisibleTree, shown: _PromptState, decision: AgentDecision) -> DescentResult:
        return DescentResult(
            "missing",
            suggested_parent_id=visible_tree.list_path(shown.cursor.position)[-1].id,
            suggested_name=decision.suggest_name,
            reason=decision.reason or AgentAction.MISSING.value,
        )

    def _make_failure(self, visible_tree: VisibleTree, shown: _PromptState, failure: str) -> DescentResult:
        parent_id = visible_tree.list_path(shown.cursor.position)[-1].id
        return DescentResult("missing", suggested_parent_id=parent_id, reason=failure, failure=failure)


def _make_found(visible_tree: VisibleTree, found: Sequence[str], decision: AgentDecision) -> DescentResult:
    if len(found) > 1 or decision.action is AgentAction.AMBIGUOUS:
        return DescentResult("ambiguous", candidates=list(found), reason=decision.reason or AgentAction.AMBIGUOUS.value)
    path = [node.id for node in visible_tree.list_path(found[0])]
    return DescentResult("matched", found[0], path, reason=decision.reason or decision.action.value)


def _list_existing(visible_tree: VisibleTree, keyword_ids: Sequence[str]) -> list[str]:
    return [keyword_id for keyword_id in keyword_ids if visible_tree.get_node(keyword_id) is not None]


def _list_versions(visible_tree: VisibleTree, keyword_ids: Sequence[str]) -> list[tuple[str, int]]:
    """Return the version of each keyword; 0 for a deleted one, which no cached decision may name."""
    nodes = ((keyword_id, visible_tree.get_node(keyword_id)) for keyword_id in keyword_ids)
    return [(keyword_id, 0 if node is None else node.version) for keyword_id, node in nodes]
