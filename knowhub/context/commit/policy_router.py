"""Which policy a candidate goes by, and what it decides on the newest rows (CE-065, CE-137, CE-138)."""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Final

from knowhub.context.commit.pages import Pages
from knowhub.context.commit.policies import (
    AggregateTopicPolicy,
    AppendOnlyPolicy,
    MergePolicy,
    ProfilePolicy,
    SkillToolPolicy,
)
from knowhub.context.commit_model import Action, CandidateMemory, WritePlan
from knowhub.context.edits import FORGOTTEN
from knowhub.context.model import Category, MemoryContext
from knowhub.core.erasing import is_erased
from knowhub.core.operation import Row, is_live

_APPEND: Final = AppendOnlyPolicy()
_COUNT: Final = SkillToolPolicy()


def policies(pages: Pages) -> dict[Category, MergePolicy]:
    """Return the policy of each category, over contents that one decision remembers."""
    aggregate = AggregateTopicPolicy(pages)
    return {
        Category.PROFILE: ProfilePolicy(pages),
        Category.PREFERENCES: aggregate,
        Category.ENTITIES: aggregate,
        Category.PATTERNS: aggregate,
        Category.EVENTS: _APPEND,
        Category.CASES: _APPEND,
        Category.SKILLS: _COUNT,
        Category.TOOLS: _COUNT,
    }


class PolicyRouter:
    """Chooses by category."""

    def __init__(self, chosen: Mapping[Category, MergePolicy] | None = None) -> None:
        self._policies = policies(Pages()) if chosen is None else chosen
        self._is_own = chosen is None

    def remembering(self, pages: Pages) -> "PolicyRouter":
        """Return a router for one decision, whose policies remember what they have taken apart."""
        router = copy(self)
        if self._is_own:
            router._policies = policies(pages)  # noqa: SLF001 -- of its own kind
        return router

    def select_policy(self, candidate: CandidateMemory, ctx: MemoryContext) -> MergePolicy:  # noqa: ARG002 -- CE-137 has it
        """Return the policy of a candidate."""
        return self._policies[candidate.category]

    def build_plan(
        self, candidate: CandidateMemory, ctx: MemoryContext, row_at: Callable[[str], Row | None]
    ) -> WritePlan:
        """Return what becomes of a candidate, given how rows stand at URIs, tombstones too.

        What was erased stays away. An event that a person deleted does too; of a topic that was, what is said anew
        begins anew.
        """
        policy = self.select_policy(candidate, ctx)
        target = policy.target(candidate, ctx)
        row = row_at(target)
        if is_erased(row):
            return WritePlan(Action.SKIP, target, reason="it was erased, and what was erased does not come back")
        is_forgotten = row is not None and not is_live(row) and bool(row.get(FORGOTTEN))
        if is_forgotten and isinstance(policy, AppendOnlyPolicy):
            return WritePlan(Action.SKIP, target, reason="it was deleted, and what was deleted stays forgotten")
        return policy.plan(candidate, row if is_live(row) else None, ctx)
