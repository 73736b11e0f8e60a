"""The descent: a model walks the tree in a few rounds and can only point into what it is shown (seed 000 §6)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from knowhub.core.asking import Asking
from knowhub.core.chat import ChatFailed, FailureReason
from knowhub.core.choices import Choices
from knowhub.core.operation import Row
from knowhub.core.request_context import RequestContext
from knowhub.keywords import agent_decision, prompts, tree
from knowhub.keywords.agent_decision import Action, AgentDecision, Intent
from knowhub.keywords.candidates import Eyes
from knowhub.keywords.model import ROOT_ID, Node, Options
from knowhub.keywords.ports import KeywordView
from knowhub.keywords.prompts import Candidate
from knowhub.keywords.recent import Recent

INVALID_JUMP = "invalid_jump"
_MAX_PATH_NAMES = 20
ViewOf: TypeAlias = Callable[[], KeywordView]
"""Gives the newest view each time: the tree may move while a model thinks."""


@dataclass(frozen=True, slots=True)
class Descended:
    """How a descent ended (KT-115).

    `path` are ids from the root to the match. `candidates` are the ones that could be meant, or, when it failed,
    what was shown last (C-25). `failure` is one of agent_failure, agent_timeout and invalid_jump, and is then the
    `reason` too.
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
class PickQuestion:
    """All that a decision of `pick_branch` turns on, which is what it may be kept under (KT-207).

    `reader` are the scopes that the caller sees, None meaning all; `start_ids` the keywords below which the view
    begins; `candidates` what is shown: id, version, name and path of each.
    """

    account: str
    reader: frozenset[str] | None
    model: str
    intent: str
    query: str
    start_ids: tuple[str, ...]
    candidates: tuple[tuple[str, int, str, str], ...]


class PickCache(Protocol):
    """Decisions of `pick_branch` that were made before. A row names keywords by id, not by idx."""

    def get(self, asked: PickQuestion) -> Row | None:
        """Return what was decided on the same question; None when nothing is kept."""

    def put(self, asked: PickQuestion, decision: Row) -> None:
        """Keep a decision; it uses every candidate of the question."""


@dataclass(frozen=True, slots=True)
class _Round:
    """What one round shows, and from where; `jumped` are the jumps that led there, each as the set of its targets."""

    path: Sequence[Node]
    start_ids: tuple[str, ...]
    candidates: Sequence[Candidate]
    jumped: frozenset[frozenset[str]] = frozenset()

    @property
    def pointable(self) -> list[str]:
        """The ids by idx: the candidates', and after them, below the root, that of the keyword stood on."""
        standing = [self.path[-1].id] if self.path[-1].id != ROOT_ID else []
        shown = [one.id for one in self.candidates]
        return shown + [keyword_id for keyword_id in standing if keyword_id not in shown]

    @property
    def current_idx(self) -> int | None:
        """The idx of the keyword stood on; None at the root."""
        return None if self.path[-1].id == ROOT_ID else self.pointable.index(self.path[-1].id) + 1


class Descent:
    """One caller's way down. The deadline that `asking` holds is that of all rounds together."""

    def __init__(self, ctx: RequestContext, asking: Asking, recent: Recent, options: Options) -> None:
        self._ctx = ctx
        self._asking = asking
        self._recent = recent
        self._options = options

    async def run(self, views: ViewOf, query: str, intent: Intent, picks: PickCache | None = None) -> Descended:
        """Descend until the model decides, fails, or has had its rounds. Never raises for what a model does."""
        ended = await self._rounds(views, query, intent, picks)
        if ended.outcome == "matched":
            # Root to leaf, so that the match itself comes first of all (C-22, KT-138).
            self._recent.touch_path(keyword_id for keyword_id in ended.path if keyword_id != ROOT_ID)
        return replace(ended, calls=tuple(self._asking.calls))

    async def _rounds(self, views: ViewOf, query: str, intent: Intent, picks: PickCache | None) -> Descended:
        eyes = Eyes(views(), self._ctx)
        position = ROOT_ID
        shown = self._first_round(eyes)
        targets: tuple[str, ...] = ()
        for number in range(max(self._options.max_rounds, 1)):
            if number:
                shown = self._next_round(eyes, position, targets, shown)
            try:
                decision = await self._decide(views, shown, query, intent, picks)
            except ChatFailed as failed:
                return self._failed(Eyes(views(), self._ctx), position, shown, failed.reason.value)
            # What was chosen counts as the tree is now, not as it was when the model was asked.
            eyes = Eyes(views(), self._ctx)
            if decision.action is not Action.JUMP:
                return self._ended(eyes, position, shown, decision, intent)
            ended = self._jumped_to_end(eyes, position, shown, decision)
            if ended is not None:
                return ended
            targets = decision.targets
            position = tree.lowest_common_ancestor(eyes.view, targets)
        return self._failed(eyes, position, shown, FailureReason.TIMEOUT.value)

    def _first_round(self, eyes: Eyes) -> _Round:
        nodes = eyes.first_view(self._recent.snapshot(), self._options.max_candidates)
        return self._round(eyes, ROOT_ID, (ROOT_ID,), nodes)

    def _next_round(self, eyes: Eyes, position: str, targets: tuple[str, ...], before: _Round) -> _Round:
        shown = self._round(eyes, position, targets, eyes.below(targets, self._options.max_candidates))
        return replace(shown, jumped=before.jumped | {frozenset(targets)})

    def _round(self, eyes: Eyes, position: str, starts: tuple[str, ...], nodes: Sequence[Node]) -> _Round:
        described = self._options.describe_candidates
        return _Round(eyes.path(position), starts, [eyes.candidate(node, described=described) for node in nodes])

    async def _decide(
        self, views: ViewOf, shown: _Round, query: str, intent: Intent, picks: PickCache | None
    ) -> AgentDecision:
        choices = Choices(shown.pointable, also=[node.id for node in shown.path])
        asked = self._asked(shown, query, intent)
        kept = agent_decision.decode(picks.get(asked), choices) if picks is not None else None
        if kept is not None and self._is_sound(views, shown, kept):
            return kept
        names = [node.name for node in shown.path if node.id != ROOT_ID][-_MAX_PATH_NAMES:]
        question = prompts.pick_branch(intent, query, names, shown.candidates, shown.current_idx)
        decision = await self._asking.ask(question, choices.by_idx, lambda data: agent_decision.decode(data, choices))
        # What strays or leads nowhere is answered as a failure, and a failure is asked again.
        if picks is not None and self._is_sound(views, shown, decision):
            picks.put(asked, decision.as_row())
        return decision

    def _asked(self, shown: _Round, query: str, intent: Intent) -> PickQuestion:
        return PickQuestion(
            account=self._ctx.account,
            reader=self._ctx.visible,
            model=self._asking.model,
            intent=intent.value,
            query=query,
            start_ids=shown.start_ids,
            candidates=tuple((one.id, one.version, one.name, one.path) for one in shown.candidates),
        )

    def _ended(self, eyes: Eyes, position: str, shown: _Round, decision: AgentDecision, intent: Intent) -> Descended:
        if decision.action is Action.MISSING:
            return self._missing(eyes, position, decision)
        is_match = decision.action is Action.MATCH
        found = self._there(eyes, decision.targets if is_match else decision.candidate_ids)
        if intent is Intent.SEARCH or not is_match:
            # The root is a place to put something, and never what somebody looks for.
            found = [keyword_id for keyword_id in found if keyword_id != ROOT_ID]
        if not found:
            return self._nothing_meant(eyes, position, shown, decision)
        if is_match and len(found) == 1:
            return self._matched(eyes, found[0], decision)
        return self._ambiguous(found, decision)

    def _jumped_to_end(self, eyes: Eyes, position: str, shown: _Round, decision: AgentDecision) -> Descended | None:
        targets = decision.targets
        if not targets and not decision.strays:
            # To name nothing is to say that nothing fits (KT-123).
            return self._missing(eyes, position, decision)
        if decision.strays or self._leads_nowhere(eyes, shown, targets):
            return self._failed(eyes, position, shown, INVALID_JUMP)
        if ROOT_ID in targets or not all(eyes.is_leaf(keyword_id) for keyword_id in targets):
            return None
        # Nothing is left to show below a leaf: to jump there is to mean it (C-24, KT-127).
        return self._matched(eyes, targets[0], decision) if len(targets) == 1 else self._ambiguous(targets, decision)

    def _is_sound(self, views: ViewOf, shown: _Round, decision: AgentDecision) -> bool:
        if decision.strays or decision.action is not Action.JUMP:
            return not decision.strays
        return not self._leads_nowhere(Eyes(views(), self._ctx), shown, decision.targets)

    def _leads_nowhere(self, eyes: Eyes, shown: _Round, targets: Sequence[str]) -> bool:
        """Tell whether a jump goes to what is gone, or would show again what was shown (KT-136).

        Back up the path is a way on, once: the same jump twice is a circle, which only rounds would end.
        """
        if len(self._there(eyes, targets)) < len(targets):
            return True
        if set(targets) == set(shown.start_ids) or frozenset(targets) in shown.jumped:
            return True
        below = eyes.below(targets, self._options.max_candidates)
        return bool(below) and {node.id for node in below} == {one.id for one in shown.candidates}

    def _matched(self, eyes: Eyes, keyword_id: str, decision: AgentDecision) -> Descended:
        return Descended(
            "matched",
            node_id=keyword_id,
            path=[node.id for node in eyes.path(keyword_id)],
            reason=decision.reason or decision.action.value,
        )

    def _ambiguous(self, keyword_ids: Sequence[str], decision: AgentDecision) -> Descended:
        return Descended(
            "ambiguous",
            candidates=list(keyword_ids),
            reason=decision.reason or Action.AMBIGUOUS.value,
        )

    def _missing(self, eyes: Eyes, position: str, decision: AgentDecision) -> Descended:
        return Descended(
            "missing",
            suggested_parent_id=eyes.path(position)[-1].id,
            suggested_name=decision.suggest_name,
            reason=decision.reason or Action.MISSING.value,
        )

    def _nothing_meant(self, eyes: Eyes, position: str, shown: _Round, decision: AgentDecision) -> Descended:
        # To name nothing is to say that nothing fits (KT-128); to name what is not there is to fail.
        if decision.strays or decision.targets or decision.candidate_ids:
            return self._failed(eyes, position, shown, FailureReason.FAILURE.value)
        return self._missing(eyes, position, decision)

    def _failed(self, eyes: Eyes, position: str, shown: _Round, failure: str) -> Descended:
        return Descended(
            "missing",
            candidates=self._there(eyes, [one.id for one in shown.candidates]),
            suggested_parent_id=eyes.path(position)[-1].id,
            reason=failure,
            failure=failure,
        )

    def _there(self, eyes: Eyes, keyword_ids: Sequence[str]) -> list[str]:
        return [keyword_id for keyword_id in keyword_ids if eyes.node(keyword_id) is not None]
