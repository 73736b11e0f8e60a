"""How a candidate becomes part of what stands (CE-074…077, CE-139): pure, from a row to the plan for the next one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from knowhub.context import uri
from knowhub.context.commit import blocks, growth, layers, tool_texts
from knowhub.context.commit.naming import topic_uri
from knowhub.context.commit.pages import Pages
from knowhub.context.commit_model import Action, CandidateMemory, WritePlan
from knowhub.context.extraction.wording import one_line, plain, shortened
from knowhub.context.index_model import EventType
from knowhub.context.model import GROWTH, Category, ContextType, MemoryContext, RelationEdge
from knowhub.context.spaces import owner_of, session_uri, space_of
from knowhub.core.operation import Row

EXTRACTED_FROM: Final = "extracted_from"
MAX_CONTENT: Final = 200_000
_MAX_SOURCES: Final = 200
_ID_DIGITS: Final = 12
_FULL: Final = "the memory is full, and nothing of it is dropped; correct or delete what is no longer needed"
_SAID_BEFORE: Final = "all of it stands there already, from these messages"


class MergePolicy(Protocol):
    """A way to bring candidates into what stands."""

    def target(self, candidate: CandidateMemory, whose: MemoryContext) -> str:
        """Return the URI of the node that a candidate belongs to."""

    def plan(self, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext) -> WritePlan:
        """Decide what becomes of a candidate, given the live row that stands at its target, if one does."""


@dataclass(frozen=True, slots=True)
class ProfilePolicy:
    """One node for who somebody is: sections by topic; of what a person has but one, the newer statement stands."""

    pages: Pages = Pages()  # noqa: RUF009 -- this one remembers nothing

    def target(self, candidate: CandidateMemory, whose: MemoryContext) -> str:
        """Return the URI of the profile."""
        return uri.node_uri(whose.account, space_of(whose, candidate.owner_scope), Category.PROFILE)

    def plan(self, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext) -> WritePlan:
        """Add a statement to its topic, or let it take the place of the one that it makes untrue."""
        before = "" if existing is None else str(existing["content"])
        text, said_at = one_line(candidate.content), candidate.facts.get("said_at") or ""
        metadata = _metadata(candidate, existing, whose)
        values = dict(metadata.get("values", {}))
        target = self.target(candidate, whose)
        if candidate.facts.get("ended"):
            return self._ending(candidate, existing, whose, metadata)
        if self.pages.says(target, before, text):
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
                    content, gone = blocks.replaced(before, old["text"], new), old["text"]
                reason = "what a person has but one of is said anew; the statement before it stands in the history"
            values[name] = {"value": value, "text": text, "said_at": said_at}
        content = content or blocks.added(before, new, _topic(candidate))
        patch = {**self.pages.layers(content), "metadata": metadata | {"values": values}}
        plan = _grown(target, candidate, existing, whose, patch, reason)
        if plan.action is not Action.SKIP:
            self.pages.grown(target, content, text, gone)
        return plan

    def _ending(
        self, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext, metadata: Mapping[str, Any]
    ) -> WritePlan:
        """Let a statement take the place of the one that it says is not so, or not any more."""
        target, text = self.target(candidate, whose), one_line(candidate.content)
        said_at, values = candidate.facts.get("said_at") or "", dict(metadata.get("values", {}))
        ended: Mapping[str, str] = candidate.facts["ended"]
        over = [name for name, value in ended.items() if _ends(values.get(name), value, said_at)]
        before = "" if existing is None else str(existing["content"])
        gone = values[over[0]]["text"] if over else ""
        if not gone or not blocks.says(before, gone):
            return _skip(target, "nothing stands of what it says is not so")
        kept = before if not blocks.says(before, text) else blocks.unsaid(before, text)
        content = blocks.replaced(kept, gone, blocks.block(text, said_at[:10] or None, whose.session_id)) or kept
        for name in over:
            del values[name]
        patch = {**self.pages.layers(content), "metadata": {**metadata, "values": values}}
        reason = "what stood there is said not to be so; it stands in the history"
        plan = _grown(target, candidate, existing, whose, patch, reason)
        if plan.action is not Action.SKIP:
            self.pages.says(target, before, text)
            self.pages.grown(target, content, text, gone)
        return plan


@dataclass(frozen=True, slots=True)
class AggregateTopicPolicy:
    """One node for all that is said of a topic, an entity, a situation: each statement once, with date and source."""

    pages: Pages = Pages()  # noqa: RUF009 -- this one remembers nothing

    def target(self, candidate: CandidateMemory, whose: MemoryContext) -> str:
        """Return the URI that the routing key names."""
        return topic_uri(whose, candidate.owner_scope, candidate.category, candidate.routing_key)

    def plan(self, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext) -> WritePlan:
        """Add a statement, or only its source where it stands there already."""
        before = f"# {candidate.routing_key}" if existing is None else str(existing["content"])
        target = self.target(candidate, whose)
        if self.pages.says(target, before, candidate.content) and existing is not None:
            return _with_source(self, candidate, existing, whose)
        said_at = candidate.facts.get("said_at") or ""
        content = blocks.added(before, blocks.block(candidate.content, said_at[:10] or None, _named(candidate, whose)))
        patch = {**self.pages.layers(content), "metadata": _metadata(candidate, existing, whose)}
        reason = "the first that is said of it" if existing is None else "one more statement about it"
        plan = _grown(target, candidate, existing, whose, patch, reason)
        if plan.action is not Action.SKIP:
            self.pages.grown(target, content, candidate.content)
        return plan


class AppendOnlyPolicy:
    """Each event and case is a node of its own; what stands is never written over, at most continued (C-48)."""

    def target(self, candidate: CandidateMemory, whose: MemoryContext) -> str:
        """Return the URI of the event or case: its date, and a hash of what it is about."""
        date = candidate.facts.get("date") or (candidate.facts.get("said_at") or "")[:10]
        key = uri.stable_hash(plain(candidate.routing_key))[:_ID_DIGITS]
        name = f"{date}-{key}" if date else key
        return uri.node_uri(whose.account, space_of(whose, candidate.owner_scope), candidate.category, name)

    def plan(self, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext) -> WritePlan:
        """Make the node, continue it with a section that it does not have, or leave it."""
        target = self.target(candidate, whose)
        if existing is None:
            told = {
                "abstract": candidate.abstract,
                "overview": shortened(candidate.overview, layers.MAX_OVERVIEW),
                "content": candidate.content,
            }
            patch = told | {"metadata": _metadata(candidate, None, whose)}
            return _grown(target, candidate, None, whose, patch, "nothing like it was told before")
        sections = str(existing["content"]).split(layers.SECTION)
        if plain(candidate.content) in {plain(section) for section in sections}:
            return _with_source(self, candidate, existing, whose)
        if len(existing["content"]) + len(candidate.content) > MAX_CONTENT:
            return _skip(target, _FULL)
        patch = {"content": f"{layers.SECTION}{candidate.content}", "metadata": _metadata(candidate, existing, whose)}
        return _planned(Action.APPEND, target, patch, candidate, whose, "more is told of it: a section is added")


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
        stats = tool_texts.counted(earlier, uses, candidate.facts.get("noted_at"))
        before = "" if existing is None else str(existing["content"])
        told = tool_texts.layers(candidate, before, earlier, stats)
        patch = told | {"metadata": metadata | {"stats": stats}}
        return _grown(target, candidate, existing, whose, patch, f"calls counted: {len(uses)}")


def _with_source(
    policy: MergePolicy, candidate: CandidateMemory, existing: Row | None, whose: MemoryContext
) -> WritePlan:
    """Plan for what stands already: its new source is noted, and nothing else."""
    target = policy.target(candidate, whose)
    metadata = _metadata(candidate, existing, whose)
    if existing is not None and metadata["source_refs"] == existing["metadata"].get("source_refs"):
        return _skip(target, _SAID_BEFORE)
    patch = {"metadata": metadata}
    return _planned(Action.MERGE, target, patch, candidate, whose, "said again: only its source is added")


def _grown(
    target: str,
    candidate: CandidateMemory,
    existing: Row | None,
    whose: MemoryContext,
    patch: Mapping[str, Any],
    reason: str,
) -> WritePlan:
    if len(patch["content"]) > MAX_CONTENT:
        return _skip(target, _FULL)
    action = Action.CREATE if existing is None else Action.MERGE
    return _planned(action, target, patch, candidate, whose, reason)


def _planned(
    action: Action,
    target: str,
    patch: Mapping[str, Any],
    candidate: CandidateMemory,
    whose: MemoryContext,
    reason: str,
) -> WritePlan:
    is_skill = candidate.category in (Category.SKILLS, Category.TOOLS)
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
    return WritePlan(Action.SKIP, target, reason=reason)


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
        **growth.noted(before.get(GROWTH, ()), candidate, whose, _named(candidate, whose)),
    }


def _together(before: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return both, each once, the newest 200."""
    return list(dict.fromkeys((*before, *new)))[-_MAX_SOURCES:]


def _named(candidate: CandidateMemory, whose: MemoryContext) -> str:
    """Return the session as the text of a memory may name it: to others whom an agent serves it tells nothing."""
    return whose.session_id if owner_of(whose, candidate.owner_scope) == whose.user_owner else ""


def _topic(candidate: CandidateMemory) -> str:
    return one_line(str(candidate.facts.get("topic") or candidate.routing_key))


def _ends(standing: Mapping[str, str] | None, value: str, said_at: str) -> bool:
    """Tell whether what stands is what is said not to be so, and was not said later."""
    return standing is not None and standing["value"] == value and not (said_at and said_at < standing["said_at"])


def _differ(one: str, other: str) -> bool:
    return not (one in other or other in one)
