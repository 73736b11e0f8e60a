"""Which node a candidate memory belongs to, and what it adds there: one policy a category."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Protocol

from knowhub.context import uri
from knowhub.context.commit import blocks, pages
from knowhub.context.commit.pages import PageContents, topic_uri
from knowhub.context.commit_model import CandidateMemory, WriteAction, WritePlan
from knowhub.context.edits import BY, BY_PERSON, FORGOTTEN
from knowhub.context.extraction.wording import one_line, shorten
from knowhub.context.index_model import EventType
from knowhub.context.model import ContextType, MemoryCategory, MemoryContext, RelationEdge
from knowhub.context.uri import owner_of, session_uri, space_of
from knowhub.conversations.recalled import normalize_words
from knowhub.core.erasing import is_erased
from knowhub.core.operation import Row, is_live

EXTRACTED_FROM: Final = "extracted_from"
MAX_CONTENT: Final = 200_000
_MAX_SOURCES: Final = 200
_ID_DIGITS: Final = 12
_FULL: Final = "the memory is full, and nothing of it is dropped; correct or delete what is no longer needed"
_SAID_BEFORE: Final = "all of it stands there already, from these messages"


class MergePolicy(Protocol):
    """A way to merge candidates into stored nodes."""

    def target(self, candidate: CandidateMemory, whose: MemoryContext) -> str:
        """Return the URI of the node that a candidate belongs to."""

    def plan(self, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext) -> WritePlan:
        """Plan a candidate, given the live row at its target, or None."""


@dataclass(frozen=True, slots=True)
class ProfilePolicy:
    """One node for a person: sections by topic. Single-valued facts: the newest statement wins."""

    pages: PageContents = PageContents()  # noqa: RUF009 -- this one remembers nothing

    def target(self, candidate: CandidateMemory, whose: MemoryContext) -> str:
        """Return the URI of the profile."""
        return uri.node_uri(whose.account, space_of(whose, candidate.owner_scope), MemoryCategory.PROFILE)

    def plan(self, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext) -> WritePlan:
        """Add a statement to its topic, or replace the statement that it contradicts."""
        before = "" if existing is None else str(existing["content"])
        text, said_at = one_line(candidate.content), candidate.facts.get("said_at") or ""
        metadata = _metadata(candidate, existing, whose)
        values = dict(metadata.get("values", {}))
        target = self.target(candidate, whose)
        if candidate.facts.get("ended"):
            return self._plan_correction(candidate, existing, whose, metadata)
        if self.pages.contains_text(target, before, text):
            return _with_source(self, candidate, existing, whose)
        new = blocks.block(text, said_at[:10] or None, whose.session_id)
        content, gone, reason = None, None, "a statement that does not stand there yet"
        told: Mapping[str, str] = candidate.facts.get("values", {})
        for name, value in told.items():
            old = values.get(name)
            if old is not None and _differ(old["value"], value):
                if said_at and said_at < old["said_at"]:
                    return _skip(target, "what stands of it was said later")
                if content is None:
                    content, gone = blocks.replace_block(before, old["text"], new), old["text"]
                reason = "what a person has but one of is said anew; the statement before it stands in the history"
            values[name] = {"value": value, "text": text, "said_at": said_at}
        content = content or blocks.add_block(before, new, _topic(candidate))
        patch = {**self.pages.layers(content), "metadata": metadata | {"values": values}}
        plan = _plan_update(target, candidate, existing, whose, patch, reason)
        if plan.action is not WriteAction.SKIP:
            self.pages.set_content(target, content, text, gone)
        return plan

    def _plan_correction(
        self, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext, metadata: Mapping[str, Any]
    ) -> WritePlan:
        """Replace the statement that a new statement denies or ends."""
        target, text = self.target(candidate, whose), one_line(candidate.content)
        said_at, values = candidate.facts.get("said_at") or "", dict(metadata.get("values", {}))
        ended: Mapping[str, str] = candidate.facts["ended"]
        over = [name for name, value in ended.items() if _ends(values.get(name), value, said_at)]
        before = "" if existing is None else str(existing["content"])
        gone = values[over[0]]["text"] if over else ""
        if not gone or not blocks.contains_text(before, gone):
            return _skip(target, "nothing stands of what it says is not so")
        kept = before if not blocks.contains_text(before, text) else blocks.remove_text(before, text)
        content = blocks.replace_block(kept, gone, blocks.block(text, said_at[:10] or None, whose.session_id)) or kept
        for name in over:
            del values[name]
        patch = {**self.pages.layers(content), "metadata": {**metadata, "values": values}}
        reason = "what stood there is said not to be so; it stands in the history"
        plan = _plan_update(target, candidate, existing, whose, patch, reason)
        if plan.action is not WriteAction.SKIP:
            self.pages.contains_text(target, before, text)
            self.pages.set_content(target, content, text, gone)
        return plan


@dataclass(frozen=True, slots=True)
class AggregateTopicPolicy:
    """One node for all that is said of a topic, an entity, a situation: each statement once, with date and source."""

    pages: PageContents = PageContents()  # noqa: RUF009 -- this one remembers nothing

    def target(self, candidate: CandidateMemory, whose: MemoryContext) -> str:
        """Return the URI that the routing key names."""
        return topic_uri(whose, candidate.owner_scope, candidate.category, candidate.routing_key)

    def plan(self, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext) -> WritePlan:
        """Add a statement, or only its source if the statement is there already."""
        # A statement that is its own key needs no heading.
        is_own_title = candidate.content.startswith(candidate.routing_key.rstrip("…"))
        title = "" if is_own_title else f"# {candidate.routing_key}"
        before = title if existing is None else str(existing["content"])
        target = self.target(candidate, whose)
        if self.pages.contains_text(target, before, candidate.content) and existing is not None:
            return _with_source(self, candidate, existing, whose)
        said_at = candidate.facts.get("said_at") or ""
        content = blocks.add_block(
            title if candidate.facts.get("is_single") and not _is_edited(existing) else before,
            blocks.block(candidate.content, said_at[:10] or None, _get_session_name(candidate, whose)),
        )
        patch = {**self.pages.layers(content), "metadata": _metadata(candidate, existing, whose)}
        reason = "the first that is said of it" if existing is None else "one more statement about it"
        plan = _plan_update(target, candidate, existing, whose, patch, reason)
        if plan.action is not WriteAction.SKIP:
            self.pages.set_content(target, content, candidate.content)
        return plan


class AppendOnlyPolicy:
    """Each event and case is a node of its own; existing content is never overwritten, only continued."""

    def target(self, candidate: CandidateMemory, whose: MemoryContext) -> str:
        """Return the URI of the event or case: its date, and a hash of its subject."""
        date = candidate.facts.get("date") or (candidate.facts.get("said_at") or "")[:10]
        key = uri.stable_hash(normalize_words(candidate.routing_key))[:_ID_DIGITS]
        name = f"{date}-{key}" if date else key
        return uri.node_uri(whose.account, space_of(whose, candidate.owner_scope), candidate.category, name)

    def plan(self, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext) -> WritePlan:
        """Make the node, continue it with a section that it does not have, or leave it."""
        target = self.target(candidate, whose)
        if existing is None:
            told = {
                "abstract": candidate.abstract,
                "overview": shorten(candidate.overview, pages.MAX_OVERVIEW),
                "content": candidate.content,
            }
            patch = told | {"metadata": _metadata(candidate, None, whose)}
            return _plan_update(target, candidate, None, whose, patch, "nothing like it was told before")
        sections = str(existing["content"]).split(pages.SECTION)
        if normalize_words(candidate.content) in {normalize_words(section) for section in sections}:
            return _with_source(self, candidate, existing, whose)
        if len(existing["content"]) + len(candidate.content) > MAX_CONTENT:
            return _skip(target, _FULL)
        patch = {"content": f"{pages.SECTION}{candidate.content}", "metadata": _metadata(candidate, existing, whose)}
        return _make_plan(WriteAction.APPEND, target, patch, candidate, whose, "more is told of it: a section is added")


class SkillToolPolicy:
    """One node for each skill and tool: what its calls add up to, and what was noted about them."""

    def target(self, candidate: CandidateMemory, whose: MemoryContext) -> str:
        """Return the URI that its name makes."""
        try:
            uri.segment(candidate.routing_key)
            name = candidate.routing_key
        except ValueError:
            name = uri.slug(candidate.routing_key)
        return uri.node_uri(whose.account, space_of(whose, candidate.owner_scope), candidate.category, name)

    def plan(self, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext) -> WritePlan:
        """Count calls that were not counted before; the text says what they add up to."""
        target = self.target(candidate, whose)
        uses: Sequence[Mapping[str, Any]] = candidate.facts.get("uses", ())
        if not uses:
            return _skip(target, "every call of it was counted before")
        metadata = _metadata(candidate, existing, whose)
        earlier = {} if existing is None else existing["metadata"].get("stats", {})
        stats = blocks.count_uses(earlier, uses, candidate.facts.get("noted_at"))
        before = "" if existing is None else str(existing["content"])
        told = blocks.layers(candidate, before, earlier, stats)
        patch = told | {"metadata": metadata | {"stats": stats}}
        return _plan_update(target, candidate, existing, whose, patch, f"calls counted: {len(uses)}")


def _with_source(
    policy: MergePolicy, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext
) -> WritePlan:
    """Plan a repetition: only the new source is added."""
    target = policy.target(candidate, whose)
    metadata = _metadata(candidate, existing, whose)
    if existing is not None and metadata["source_refs"] == existing["metadata"].get("source_refs"):
        return _skip(target, _SAID_BEFORE)
    patch = {"metadata": metadata}
    return _make_plan(WriteAction.MERGE, target, patch, candidate, whose, "said again: only its source is added")


def _plan_update(
    target: str,
    candidate: CandidateMemory,
    existing: Row | None,
    whose: MemoryContext,
    patch: Mapping[str, Any],
    reason: str,
) -> WritePlan:
    if len(patch["content"]) > MAX_CONTENT:
        return _skip(target, _FULL)
    action = WriteAction.CREATE if existing is None else WriteAction.MERGE
    return _make_plan(action, target, patch, candidate, whose, reason)


def _make_plan(
    action: WriteAction,
    target: str,
    patch: Mapping[str, Any],
    candidate: CandidateMemory,
    whose: MemoryContext,
    reason: str,
) -> WritePlan:
    is_skill = candidate.category in (MemoryCategory.SKILLS, MemoryCategory.TOOLS)
    kind = ContextType.SKILL if is_skill else ContextType.MEMORY
    standing = {
        "context_type": kind.value,
        "category": candidate.category.value,
        "owner_scope": candidate.owner_scope,
    }
    edge = RelationEdge(target, session_uri(whose), EXTRACTED_FROM, "it was said in this session", candidate.confidence)
    events = (EventType.UPSERT_CONTEXT, EventType.UPSERT_RELATION)
    return WritePlan(action, target, {**standing, **patch}, (edge,), events, reason)


def _skip(target: str, reason: str) -> WritePlan:
    return WritePlan(WriteAction.SKIP, target, reason=reason)


def _metadata(candidate: CandidateMemory, existing: Row | None, whose: MemoryContext) -> dict[str, Any]:
    before: Mapping[str, Any] = {} if existing is None else existing["metadata"]
    said = [moment for moment in (before.get("said_at"), candidate.facts.get("said_at")) if moment]
    return {
        **before,
        "confidence": max(candidate.confidence, before.get("confidence", 0.0)),
        "by": candidate.by,
        "routing_key": candidate.routing_key,
        "source_refs": _together(before.get("source_refs", ()), candidate.source_refs),
        "message_ids": _together(before.get("message_ids", ()), candidate.facts.get("message_ids", ())),
        "sessions": _together(before.get("sessions", ()), [whose.session_id]),
        "said_at": max(said) if said else None,
    }


def _together(before: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return both, each once, the newest 200."""
    return list(dict.fromkeys((*before, *new)))[-_MAX_SOURCES:]


def _is_edited(existing: Row | None) -> bool:
    """Return whether a person edited a memory: their words are not replaced."""
    return existing is not None and existing["metadata"].get(BY) == BY_PERSON


def _get_session_name(candidate: CandidateMemory, whose: MemoryContext) -> str:
    """Return the session as the text of a memory may name it: to others whom an agent serves it tells nothing."""
    return whose.session_id if owner_of(whose, candidate.owner_scope) == whose.user_owner else ""


def _topic(candidate: CandidateMemory) -> str:
    return one_line(str(candidate.facts.get("topic") or candidate.routing_key))


def _ends(standing: Mapping[str, str] | None, value: str, said_at: str) -> bool:
    """Return whether the stored statement is the denied one, and is not newer than the denial."""
    return standing is not None and standing["value"] == value and not (said_at and said_at < standing["said_at"])


def _differ(item: str, other: str) -> bool:
    return not (item in other or other in item)


_APPEND: Final = AppendOnlyPolicy()
_COUNT: Final = SkillToolPolicy()


def policies(pages: PageContents) -> dict[MemoryCategory, MergePolicy]:
    """Return the policy of each category, over contents that one decision remembers."""
    aggregate = AggregateTopicPolicy(pages)
    return {
        MemoryCategory.PROFILE: ProfilePolicy(pages),
        MemoryCategory.PREFERENCES: aggregate,
        MemoryCategory.ENTITIES: aggregate,
        MemoryCategory.PATTERNS: aggregate,
        MemoryCategory.EVENTS: _APPEND,
        MemoryCategory.CASES: _APPEND,
        MemoryCategory.SKILLS: _COUNT,
        MemoryCategory.TOOLS: _COUNT,
    }


class PolicyRouter:
    """Chooses by category."""

    def __init__(self, chosen: Mapping[MemoryCategory, MergePolicy] | None = None) -> None:
        self._policies = policies(PageContents()) if chosen is None else chosen
        self._is_own = chosen is None

    def remembering(self, pages: PageContents) -> "PolicyRouter":
        """Return a router for one decision, whose policies remember what they have taken apart."""
        router = copy(self)
        if self._is_own:
            router._policies = policies(pages)  # noqa: SLF001 -- of its own kind
        return router

    def select_policy(self, candidate: CandidateMemory, ctx: MemoryContext) -> MergePolicy:  # noqa: ARG002 -- the port names it
        """Return the policy of a candidate."""
        return self._policies[candidate.category]

    def build_plan(
        self, candidate: CandidateMemory, ctx: MemoryContext, row_at: Callable[[str], Row | None]
    ) -> WritePlan:
        """Return the plan of a candidate, given the rows at URIs, tombstones too.

        What was erased stays away. An event that a person deleted does too; of a topic that was, what is said anew
        begins anew.
        """
        policy = self.select_policy(candidate, ctx)
        target = policy.target(candidate, ctx)
        row = row_at(target)
        if is_erased(row):
            return WritePlan(WriteAction.SKIP, target, reason="it was erased, and what was erased does not come back")
        is_forgotten = row is not None and not is_live(row) and bool(row.get(FORGOTTEN))
        if is_forgotten and isinstance(policy, AppendOnlyPolicy):
            return WritePlan(WriteAction.SKIP, target, reason="it was deleted, and what was deleted stays forgotten")
        return policy.plan(candidate, row if is_live(row) else None, ctx)
