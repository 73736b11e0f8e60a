"""The decision of a commit: what is new on the newest rows, planned and turned into one operation's writes. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit import relation_writer, results
from knowhub.context.commit.candidate_pipeline import Extracted
from knowhub.context.commit.context_writer import ContextWriter
from knowhub.context.commit.layers import gathered
from knowhub.context.commit.naming import topic_uri
from knowhub.context.commit.pages import Pages
from knowhub.context.commit.parts import Part, Standing, new_parts, part_writes, parts_of, standing
from knowhub.context.commit.policy_router import PolicyRouter
from knowhub.context.commit.relation_writer import RelationWriter
from knowhub.context.commit.session_node import COUNTED_CALLS, session_plan
from knowhub.context.commit_model import Action, CandidateMemory, SessionArchive, WritePlan, WriteResult
from knowhub.context.extraction.tool_uses import CALL, counted_on
from knowhub.context.model import Category, MemoryContext
from knowhub.context.ports import ContextView
from knowhub.core import clock
from knowhub.core.messages import Message
from knowhub.core.operation import Draft, Row, Write, is_live

COMMIT_SESSION: Final = "commit_session"
_MAX_ENTITIES: Final = 1_000
_NAMING: Final = (Category.EVENTS, Category.PREFERENCES)


@dataclass(frozen=True, slots=True)
class Thought:
    """What was worked out before the decision. `seen` are the parts that the archive tells of; None is any.

    `parts` are named by how the session stood then: a decision names them anew.
    """

    messages: Sequence[Message]
    parts: Sequence[Part]
    archive: SessionArchive
    extracted: Extracted
    seen: frozenset[str] | None = None
    calls: Sequence[Row] = ()
    degraded: Sequence[str] = ()

    def named_calls(self) -> list[str]:
        """Return the ids of the calls that the commit names, of those tools of which there are candidates."""
        uses = (use["id"] for one in self.extracted.candidates for use in one.facts.get("uses", ()))
        return [use_id for use_id in uses if use_id.startswith(CALL)]

    def is_stale(self, view: ContextView) -> bool:
        """Tell whether the session has parts by now that the archive does not tell of, or lacks one that it does."""
        if self.seen is None:
            return False
        standing = {head.uri for head in view.context_parts(self.archive.archive_uri)}
        return standing | {part.uri for part in new_parts(view, self.newest(view).parts)} != self.seen

    def newest(self, view: ContextView) -> "Thought":
        """Return the same with the parts as they are called by now."""
        parts = parts_of(view, self.archive.archive_uri, self.messages)
        turned = {old.uri: new.uri for old, new in zip(self.parts, parts, strict=True) if old.uri != new.uri}
        candidates = [_renamed(one, turned) for one in self.extracted.candidates] if turned else None
        extracted = self.extracted if candidates is None else replace(self.extracted, candidates=candidates)
        return replace(self, parts=parts, extracted=extracted)

    def counting_on(self, counted: frozenset[str]) -> "Thought":
        """Return the same with calls that nothing names but their order counted behind those that are."""
        turned = counted_on(self.named_calls(), counted)
        candidates = [_renamed(one, turned) for one in self.extracted.candidates]
        return replace(self, extracted=replace(self.extracted, candidates=candidates)) if turned else self

    def with_archive(self, archive: SessionArchive, seen: frozenset[str] | None) -> "Thought":
        """Return the same with another archive."""
        return replace(self, archive=archive, seen=seen)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was decided: plans and what becomes of them, the messages that are new, and all that is written.

    `sources` are the messages that each plan takes in.
    """

    thought: Thought
    plans: Sequence[WritePlan]
    results: Sequence[WriteResult]
    fresh: Sequence[Part]
    standings: Mapping[str, int]
    writes: Sequence[Write]
    sources: Sequence[Sequence[str]]

    @property
    def session_row(self) -> Row:
        """The session's node as it will stand."""
        return self.writes[0].after

    def stats(self, received: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is counted of the commit."""
        actions = Counter(result.action.value for result in self.results[1:])
        messages = {**received["messages"], **self.standings}
        return {**received, "messages": messages, "plans": dict(actions)}

    def draft(self, received: Mapping[str, Any]) -> Draft:
        """Return the operation."""
        reply = {
            "plans": results.told(self.plans, self.results, self.sources),
            "stats": self.stats(received),
            "degraded": list(self.thought.degraded),
        }
        return Draft(COMMIT_SESSION, self.writes, reply=reply, agent_io=self.thought.calls or None)


@dataclass(frozen=True, slots=True)
class Deciding:
    """Decides for one commit, as often as it is asked, each time on the view that it is given."""

    whose: MemoryContext
    thought: Thought
    router: PolicyRouter
    make_writer: Callable[[ContextView], ContextWriter]
    make_relations: Callable[[ContextWriter], RelationWriter]

    def decide(self, view: ContextView) -> Outcome | None:
        """Return what is to be written; None where nothing is new. Raises Conflict."""
        thought, address = self.thought.newest(view), self.thought.archive.archive_uri
        met = [(part, standing(view, part)) for part in thought.parts]
        fresh = [part for part, how in met if how is Standing.NEW]
        writer = self.make_writer(view)
        relations = self.make_relations(writer)
        row = writer.row(address)
        live = row if is_live(row) else None
        counted = frozenset(() if live is None else live["metadata"].get(COUNTED_CALLS, ()))
        if len(fresh) == len(met) > 0:
            # It repeats nothing, and so do the calls of tools that it names.
            thought = thought.counting_on(counted)
        calls = [call for call in thought.named_calls() if call not in counted]
        if not fresh and not calls:
            return None
        heads = view.context_parts(address)
        plans = [session_plan(self.whose, thought.archive, live, heads, fresh, calls)]
        done = [writer.apply_plan(self.whose, plans[0])]
        candidates = list(_candidates(thought, view, fresh, frozenset(calls)))
        entities = self._entities(view) if any(one.category in _NAMING for one in candidates) else []
        pages = Pages(is_deferring=True)
        router = self.router.remembering(pages)
        for candidate in candidates:
            plan = router.build_plan(candidate, self.whose, writer.row)
            done.append(writer.apply_plan(self.whose, plan))
            plans.append(_with_mentions(candidate, plan, entities))
            relations.apply_edges(self.whose, plan.target_uri, plans[-1].relation_ops)
        _render(pages, writer, plans)
        session_write, *nodes = writer.writes()
        writes = [session_write, *part_writes(view, self.whose, address, fresh), *nodes]
        sources: list[Sequence[str]] = [(), *(one.source_refs for one in candidates)]
        return Outcome(thought, plans, done, fresh, counts(how for _, how in met), writes, sources)

    def _entities(self, view: ContextView) -> list[tuple[str, str]]:
        """Return the entities that are known, and those of this commit: URIs and names."""
        entities = [one for one in self.thought.extracted.candidates if one.category is Category.ENTITIES]
        found = {self._entity_uri(one.routing_key): one.routing_key for one in entities}
        folder = uri.parent_of(self._entity_uri("x"))
        for head in view.context_children(folder)[:_MAX_ENTITIES]:
            found.setdefault(head.uri, head.name)
        return relation_writer.named(found.items())

    def _entity_uri(self, name: str) -> str:
        return topic_uri(self.whose, "user", Category.ENTITIES, name)


def _candidates(
    thought: Thought, view: ContextView, fresh: Sequence[Part], calls: frozenset[str]
) -> Iterator[CandidateMemory]:
    """Yield the candidates of which a source is new, with what the policies need to know of those."""
    ids = {part.uri: part.message_id for part in fresh}
    for candidate in thought.extracted.candidates:
        uses = [use for use in candidate.facts.get("uses", ()) if use["id"] in ids or use["id"] in calls]
        if uses or any(source in ids for source in candidate.source_refs):
            named = [named for source in candidate.source_refs if (named := ids.get(source))]
            facts = {**candidate.facts, "message_ids": named, "noted_at": clock.iso(view.now)}
            yield replace(candidate, facts=facts | ({"uses": uses} if uses else {}))


def _render(pages: Pages, writer: ContextWriter, plans: list[WritePlan]) -> None:
    """Make the layers of contents that grew, and tell them in the last plan of each."""
    last = {plan.target_uri: at for at, plan in enumerate(plans) if "content" in plan.node_patch}
    for target, at in last.items():
        if pages.grew(target):
            made = gathered(str(plans[at].node_patch["content"]))
            writer.set_layers(target, made)
            plans[at] = replace(plans[at], node_patch={**plans[at].node_patch, **made})


def _renamed(candidate: CandidateMemory, turned: Mapping[str, str]) -> CandidateMemory:
    """Return a candidate that names its messages and calls as they are called by now."""
    sources = [turned.get(source, source) for source in candidate.source_refs]
    uses = [{**use, "id": turned.get(use["id"], use["id"])} for use in candidate.facts.get("uses", ())]
    return replace(candidate, source_refs=sources, facts={**candidate.facts, **({"uses": uses} if uses else {})})


def _with_mentions(candidate: CandidateMemory, plan: WritePlan, entities: Sequence[tuple[str, str]]) -> WritePlan:
    if plan.action is Action.SKIP or candidate.category not in _NAMING:
        return plan
    edges = relation_writer.mentions(plan.target_uri, candidate.content, entities)
    return replace(plan, relation_ops=[*plan.relation_ops, *edges]) if edges else plan


def counts(how: Iterator[Standing]) -> dict[str, int]:
    """Return how many messages are new, known and forgotten."""
    counted = Counter(how)
    return {"added": counted[Standing.NEW], "known": counted[Standing.KNOWN], "forgotten": counted[Standing.FORGOTTEN]}
