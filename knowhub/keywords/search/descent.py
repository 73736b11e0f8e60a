"""The descent: a model walks down the tree in a few rounds, choosing among the candidates that it is shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from knowhub.core.language_models import ChatFailed, FailureReason
from knowhub.core.model_calls import ModelConversation, NumberedChoices
from knowhub.core.operation import Row, View
from knowhub.core.request_context import RequestContext
from knowhub.keywords import tree
from knowhub.keywords.cache import RecentMatches
from knowhub.keywords.model import ROOT_ID, Node, TreeOptions
from knowhub.keywords.search import prompts
from knowhub.keywords.search.candidates import VisibleTree
from knowhub.keywords.search.prompts import AgentAction, AgentDecision, Intent, PromptCandidate

INVALID_JUMP = "invalid_jump"
_MAX_PATH_NAMES = 20
ViewOf: TypeAlias = Callable[[], View]
"""Gives the newest view each time: the tree may move while a model thinks."""


@dataclass(frozen=True, slots=True)
class DescentResult:
    """The result of a descent.

    `path` has the ids from the root to the match. `candidates` are the possible matches, or after a failure the last
    list that was shown. `failure` is agent_failure, agent_timeout or invalid_jump, and is then also the `reason`.
    """

    outcome: Literal["matched", "missing", "ambiguous"]
    node_id: str | None = None
    path: Sequence[str] = ()
    candidates: Sequence[str] = ()
    suggested_parent_id: str | None = None
    suggested_name: str | None = None
    reason: str = ""
    calls: Sequence[Row] = ()
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _PromptState:
    """What one round shows: `start_ids` are its roots, `jumped` the targets of all jumps before."""

    path: Sequence[Node]
    start_ids: tuple[str, ...]
    candidates: Sequence[PromptCandidate]
    jumped: frozenset[frozenset[str]] = frozenset()

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
    """One descent of one caller. All rounds share the deadline of the conversation."""

    def __init__(
        self, ctx: RequestContext, asking: ModelConversation, recent: RecentMatches, options: TreeOptions
    ) -> None:
        self._ctx = ctx
        self._asking = asking
        self._recent = recent
        self._options = options

    async def run(self, views: ViewOf, query: str, intent: Intent) -> DescentResult:
        """Descend until the model decides or fails, or the rounds are used up.

        Never raises for an answer of the model.
        """
        ended = await self._run_prompts(views, query, intent)
        if ended.outcome == "matched":
            # From the root, so that the match becomes the newest.
            self._recent.add_path(keyword_id for keyword_id in ended.path if keyword_id != ROOT_ID)
        return replace(ended, calls=tuple(self._asking.calls))

    async def _run_prompts(self, views: ViewOf, query: str, intent: Intent) -> DescentResult:
        visible_tree = VisibleTree(views(), self._ctx)
        position = ROOT_ID
        shown = self._make_first_prompt(visible_tree)
        targets: tuple[str, ...] = ()
        for number in range(max(self._options.max_rounds, 1)):
            if number:
                shown = self._make_next_prompt(visible_tree, position, targets, shown)
            try:
                decision = await self._decide(shown, query, intent)
            except ChatFailed as failed:
                return self._make_failure(VisibleTree(views(), self._ctx), position, shown, failed.reason.value)
            # Apply the choice to the current tree.
            visible_tree = VisibleTree(views(), self._ctx)
            if decision.action is not AgentAction.JUMP:
                return self._make_result(visible_tree, position, shown, decision, intent)
            ended = self._try_final_jump(visible_tree, position, shown, decision)
            if ended is not None:
                return ended
            targets = decision.targets
            position = tree.lowest_common_ancestor(visible_tree.view, targets)
        return self._make_failure(visible_tree, position, shown, FailureReason.TIMEOUT.value)

    def _make_first_prompt(self, visible_tree: VisibleTree) -> _PromptState:
        nodes = visible_tree.list_first_candidates(self._recent.list_newest(), self._options.max_candidates)
        return self._make_prompt(visible_tree, ROOT_ID, (ROOT_ID,), nodes)

    def _make_next_prompt(
        self, visible_tree: VisibleTree, position: str, targets: tuple[str, ...], before: _PromptState
    ) -> _PromptState:
        shown = self._make_prompt(
            visible_tree, position, targets, visible_tree.list_descendants(targets, self._options.max_candidates)
        )
        return replace(shown, jumped=before.jumped | {frozenset(targets)})

    def _make_prompt(
        self, visible_tree: VisibleTree, position: str, starts: tuple[str, ...], nodes: Sequence[Node]
    ) -> _PromptState:
        described = self._options.describe_candidates
        return _PromptState(
            visible_tree.list_path(position),
            starts,
            [visible_tree.make_candidate(node, described=described) for node in nodes],
        )

    async def _decide(self, shown: _PromptState, query: str, intent: Intent) -> AgentDecision:
        choices = NumberedChoices(shown.choice_ids, also=[node.id for node in shown.path])
        names = [node.name for node in shown.path if node.id != ROOT_ID][-_MAX_PATH_NAMES:]
        question = prompts.pick_branch(intent, query, names, shown.candidates, shown.current_idx)
        return await self._asking.ask(question, choices.by_idx, lambda data: prompts.parse_decision(data, choices))

    def _make_result(
        self, visible_tree: VisibleTree, position: str, shown: _PromptState, decision: AgentDecision, intent: Intent
    ) -> DescentResult:
        if decision.action is AgentAction.MISSING:
            return self._make_missing(visible_tree, position, decision)
        is_match = decision.action is AgentAction.MATCH
        found = self._list_existing(visible_tree, decision.targets if is_match else decision.candidate_ids)
        if intent is Intent.SEARCH or not is_match:
            # The root is never the answer of a search.
            found = [keyword_id for keyword_id in found if keyword_id != ROOT_ID]
        if not found:
            return self._make_empty(visible_tree, position, shown, decision)
        if is_match and len(found) == 1:
            return self._make_match(visible_tree, found[0], decision)
        return self._make_ambiguous(found, decision)

    def _try_final_jump(
        self, visible_tree: VisibleTree, position: str, shown: _PromptState, decision: AgentDecision
    ) -> DescentResult | None:
        targets = decision.targets
        if not targets and not decision.strays:
            # A jump without targets means that nothing fits.
            return self._make_missing(visible_tree, position, decision)
        if decision.strays or self._is_invalid_jump(visible_tree, shown, targets):
            return self._make_failure(visible_tree, position, shown, INVALID_JUMP)
        if ROOT_ID in targets or not all(visible_tree.is_leaf(keyword_id) for keyword_id in targets):
            return None
        # A jump to a leaf is a match.
        return (
            self._make_match(visible_tree, targets[0], decision)
            if len(targets) == 1
            else self._make_ambiguous(targets, decision)
        )

    def _is_invalid_jump(self, visible_tree: VisibleTree, shown: _PromptState, targets: Sequence[str]) -> bool:
        """Return whether a jump goes to a deleted keyword, or shows nothing new.

        A jump back up the path is allowed once: the same jump twice is a circle.
        """
        if len(self._list_existing(visible_tree, targets)) < len(targets):
            return True
        if set(targets) == set(shown.start_ids) or frozenset(targets) in shown.jumped:
            return True
        below = visible_tree.list_descendants(targets, self._options.max_candidates)
        return bool(below) and {node.id for node in below} == {candidate.id for candidate in shown.candidates}

    def _make_match(self, visible_tree: VisibleTree, keyword_id: str, decision: AgentDecision) -> DescentResult:
        return DescentResult(
            "matched",
            node_id=keyword_id,
            path=[node.id for node in visible_tree.list_path(keyword_id)],
            reason=decision.reason or decision.action.value,
        )

    def _make_ambiguous(self, keyword_ids: Sequence[str], decision: AgentDecision) -> DescentResult:
        return DescentResult(
            "ambiguous",
            candidates=list(keyword_ids),
            reason=decision.reason or AgentAction.AMBIGUOUS.value,
        )

    def _make_missing(self, visible_tree: VisibleTree, position: str, decision: AgentDecision) -> DescentResult:
        return DescentResult(
            "missing",
            suggested_parent_id=visible_tree.list_path(position)[-1].id,
            suggested_name=decision.suggest_name,
            reason=decision.reason or AgentAction.MISSING.value,
        )

    def _make_empty(
        self, visible_tree: VisibleTree, position: str, shown: _PromptState, decision: AgentDecision
    ) -> DescentResult:
        # An answer without targets means that nothing fits; unknown targets are a failure.
        if decision.strays or decision.targets or decision.candidate_ids:
            return self._make_failure(visible_tree, position, shown, FailureReason.FAILURE.value)
        return self._make_missing(visible_tree, position, decision)

    def _make_failure(
        self, visible_tree: VisibleTree, position: str, shown: _PromptState, failure: str
    ) -> DescentResult:
        return DescentResult(
            "missing",
            candidates=self._list_existing(visible_tree, [candidate.id for candidate in shown.candidates]),
            suggested_parent_id=visible_tree.list_path(position)[-1].id,
            reason=failure,
            failure=failure,
        )

    def _list_existing(self, visible_tree: VisibleTree, keyword_ids: Sequence[str]) -> list[str]:
        return [keyword_id for keyword_id in keyword_ids if visible_tree.get_node(keyword_id) is not None]
