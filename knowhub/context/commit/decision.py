"""The decision of a commit: what is new on the newest rows, planned and turned into one operation's writes. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from knowhub.context import uri
from knowhub.context.commit import context_writer, results
from knowhub.context.commit.context_writer import ContextWriter, RelationWriter
from knowhub.context.commit.parts import MessageState, TranscriptPart, get_state, new_parts, part_writes, parts_of
from knowhub.context.commit.policies import build_plan, find_target, topic_uri
from knowhub.context.commit.rule_extraction import ExtractedCandidates
from knowhub.context.commit.session_node import COUNTED_CALLS, OVERVIEW, has_summary, session_plan
from knowhub.context.commit_model import CandidateMemory, SessionArchive, WriteAction, WritePlan, WriteResult
from knowhub.context.extraction.summaries import content_words
from knowhub.context.extraction.tool_uses import CALL, continue_use_ids
from knowhub.context.model import IMPORT_ID, NODES, READING, MemoryCategory, MemoryContext
from knowhub.context.queries import list_memories_in, list_parts
from knowhub.context.reading import add_messages
from knowhub.conversations.messages import Message
from knowhub.core import clock
from knowhub.core.operation import Draft, Row, View, Write, is_live

COMMIT_SESSION: Final = "commit_session"
_MAX_ENTITIES: Final = 1_000
# At most so many plans, ordered by date, are compared with a plan that was moved.
_MAX_PLANS: Final = 200
_NAMING: Final = (MemoryCategory.EVENTS, MemoryCategory.PREFERENCES)


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """What was worked out before the decision. `seen` are the parts that the archive tells of; None is any.

    `reader` is who reads the new messages, see `add_messages`; `recalled` is what must not be learnt from them.
    `import_id` is the import that it belongs to.

    `parts` are named by how the session stood then: a decision names them anew.
    """

    messages: Sequence[Message]
    parts: Sequence[TranscriptPart]
    archive: SessionArchive
    extracted: ExtractedCandidates
    seen: frozenset[str] | None = None
    reader: str = "by_rules"
    recalled: Sequence[str] = ()
    import_id: str | None = None

    def list_call_ids(self) -> list[str]:
        """Return the ids of the commit's calls of tools that have candidates."""
        uses = (use["id"] for candidate in self.extracted.candidates for use in candidate.facts.get("uses", ()))
        return [use_id for use_id in uses if use_id.startswith(CALL)]

    def is_stale(self, view: View) -> bool:
        """Return whether the parts of the session differ from those of the archive, or it has no summary to keep."""
        if self.seen is None:
            return OVERVIEW not in self.archive.stats and not has_summary(view.get(NODES, self.archive.archive_uri))
        stored = {head.uri for head in list_parts(view, self.archive.archive_uri)}
        return stored | {part.uri for part in new_parts(view, self.newest(view).parts)} != self.seen

    def newest(self, view: View) -> "PreparedCommit":
        """Return the same with the parts as they are called by now."""
        parts = parts_of(view, self.archive.archive_uri, self.messages)
        turned = {old.uri: new.uri for old, new in zip(self.parts, parts, strict=True) if old.uri != new.uri}
        candidates = [_rename_sources(candidate, turned) for candidate in self.extracted.candidates] if turned else None
        extracted = self.extracted if candidates is None else replace(self.extracted, candidates=candidates)
        return replace(self, parts=parts, extracted=extracted)

    def with_counted_calls(self, counted: frozenset[str]) -> "PreparedCommit":
        """Return the same with calls that nothing names but their order counted behind those that are."""
        turned = continue_use_ids(self.list_call_ids(), counted)
        candidates = [_rename_sources(candidate, turned) for candidate in self.extracted.candidates]
        return replace(self, extracted=replace(self.extracted, candidates=candidates)) if turned else self

    def with_archive(self, archive: SessionArchive, seen: frozenset[str] | None) -> "PreparedCommit":
        """Return the same with another archive."""
        return replace(self, archive=archive, seen=seen)


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """What was decided: plans and what becomes of them, the messages that are new, and all that is written.

    `sources` are the messages that each plan takes in.
    """

    prepared: PreparedCommit
    plans: Sequence[WritePlan]
    results: Sequence[WriteResult]
    fresh: Sequence[TranscriptPart]
    state_counts: Mapping[str, int]
    writes: Sequence[Write]
    sources: Sequence[Sequence[str]]

    @property
    def session_row(self) -> Row:
        """The session's node after this commit."""
        return self.writes[0].after

    def stats(self, received: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is counted of the commit."""
        actions = Counter(result.action.value for result in self.results[1:])
        messages = {**received["messages"], **self.state_counts}
        return {**received, "messages": messages, "plans": dict(actions)}

    def draft(self, received: Mapping[str, Any]) -> Draft:
        """Return the operation."""
        reply = {
            "plans": results.format_plans(self.plans, self.results, self.sources),
            "stats": self.stats(received),
        }
        return Draft(COMMIT_SESSION, self.writes, reply=reply)


@dataclass(frozen=True, slots=True)
class CommitDecider:
    """Decides for one commit, as often as it is asked, each time on the view that it is given."""

    whose: MemoryContext
    prepared: PreparedCommit
    make_writer: Callable[[View], ContextWriter]
    make_relations: Callable[[ContextWriter], RelationWriter]

    def decide(self, view: View) -> CommitDecision | None:
        """Return what is to be written; None where nothing is new. Raises Conflict."""
        prepared, address = self.prepared.newest(view), self.prepared.archive.archive_uri
        met = [(part, get_state(view, part)) for part in prepared.parts]
        fresh = [part for part, how in met if how is MessageState.NEW]
        writer = self.make_writer(view)
        row = writer.row(address)
        live = row if is_live(row) else None
        heads = list_parts(view, address)
        counted = frozenset(call for head in heads for call in head.calls)
        counted |= frozenset(() if live is None else live["metadata"].get(COUNTED_CALLS, ()))
        if len(fresh) == len(met) > 0:
            # It repeats nothing, and so do the calls of tools that it names.
            prepared = prepared.with_counted_calls(counted)
        calls = [call for call in prepared.list_call_ids() if call not in counted]
        if not fresh and not calls:
            return None
        new = part_writes(view, self.whose, address, fresh, calls)
        numbers = [write.after["number"] for write in new]
        before = {} if live is None else live["metadata"]
        reading = add_messages(before, numbers, prepared.recalled, view.now, prepared.reader)
        plan = session_plan(self.whose, prepared.archive, live, heads, fresh, () if fresh else calls)
        metadata = {**plan.node_patch["metadata"], READING: reading}
        metadata.pop(IMPORT_ID, None)
        metadata |= {IMPORT_ID: prepared.import_id} if prepared.import_id else {}
        plans = [replace(plan, node_patch={**plan.node_patch, "metadata": metadata})]
        done = [writer.apply_plan(self.whose, plans[0])]
        candidates = list(_candidates(prepared, view, fresh, frozenset(calls)))
        planner = CandidatePlanner(self.whose, view, writer, self.make_relations(writer), candidates)
        for candidate in candidates:
            plan, result = planner.apply(candidate)
            plans.append(plan)
            done.append(result)
        session_write, *nodes = writer.writes()
        writes = [session_write, *new, *nodes]
        sources: list[Sequence[str]] = [(), *(candidate_memory.source_refs for candidate_memory in candidates)]
        return CommitDecision(prepared, plans, done, fresh, counts(how for _, how in met), writes, sources)


class CandidatePlanner:
    """Plans candidates one after the other and carries each plan out on the rows of a decision."""

    def __init__(
        self,
        whose: MemoryContext,
        view: View,
        writer: ContextWriter,
        relations: RelationWriter,
        candidates: Sequence[CandidateMemory],
    ) -> None:
        self._whose = whose
        self._view = view
        self._writer = writer
        self._relations = relations
        is_naming = any(candidate.category in _NAMING for candidate in candidates)
        self._entities = self._list_entities(candidates) if is_naming else []

    def apply(self, candidate: CandidateMemory) -> tuple[WritePlan, WriteResult]:
        """Plan a candidate on the rows as they are by now, and write what it says."""
        if candidate.facts.get("is_change"):
            replaced = _find_replaced_event(self._view, self._writer, candidate, self._whose)
            if replaced is not None:
                facts = {**candidate.facts, "target": replaced["id"], "is_single": True}
                candidate = replace(candidate, facts=facts)
        plan = _with_mentions(candidate, build_plan(candidate, self._whose, self._writer.row), self._entities)
        result = self._writer.apply_plan(self._whose, plan)
        self._relations.apply_edges(self._whose, plan.target_uri, plan.relation_ops)
        return plan, result

    def _list_entities(self, candidates: Sequence[CandidateMemory]) -> list[tuple[str, str]]:
        """Return the entities that are known, and those of these candidates: URIs and names."""
        entities = [candidate for candidate in candidates if candidate.category is MemoryCategory.ENTITIES]
        found = {self._entity_uri(entity.routing_key): entity.routing_key for entity in entities}
        folder = uri.parent_of(self._entity_uri("x"))
        for head in list_memories_in(self._view, folder)[:_MAX_ENTITIES]:
            found.setdefault(head.uri, head.name)
        return context_writer.list_names(found.items())

    def _entity_uri(self, name: str) -> str:
        return topic_uri(self._whose, "user", MemoryCategory.ENTITIES, name)


def _candidates(
    prepared: PreparedCommit, view: View, fresh: Sequence[TranscriptPart], calls: frozenset[str]
) -> Iterator[CandidateMemory]:
    """Yield the candidates with a new source, with what the policies need of it."""
    ids = {part.uri: part.message_id for part in fresh}
    for candidate in prepared.extracted.candidates:
        uses = [use for use in candidate.facts.get("uses", ()) if use["id"] in ids or use["id"] in calls]
        if uses or any(source in ids for source in candidate.source_refs):
            named = [named for source in candidate.source_refs if (named := ids.get(source))]
            facts = {**candidate.facts, "message_ids": named, "noted_at": clock.iso(view.now)}
            yield replace(candidate, facts=facts | ({"uses": uses} if uses else {}))


def _find_replaced_event(
    view: View, writer: ContextWriter, candidate: CandidateMemory, whose: MemoryContext
) -> Row | None:
    """Return the live plan that a changed plan is about: the future plan with most words in common."""
    told_at, words = str(candidate.facts.get("told_at") or ""), content_words(candidate.content)
    best, most = None, 0
    folder = uri.parent_of(find_target(candidate, whose))
    for head in list_memories_in(view, folder)[-_MAX_PLANS:]:
        row = writer.row(head.uri)
        if row is None or not is_live(row):
            continue
        shared = len(words & content_words(str(row["content"])))
        # A plan of the past is about something else unless it shares more than a word.
        is_past = str(row["metadata"].get("said_at") or "") < told_at
        if shared > max(most, int(is_past)):
            best, most = row, shared
    return best


def _rename_sources(candidate: CandidateMemory, turned: Mapping[str, str]) -> CandidateMemory:
    """Return a candidate that names its messages and calls as they are called by now."""
    sources = [turned.get(source, source) for source in candidate.source_refs]
    uses = [{**use, "id": turned.get(use["id"], use["id"])} for use in candidate.facts.get("uses", ())]
    return replace(candidate, source_refs=sources, facts={**candidate.facts, **({"uses": uses} if uses else {})})


def _with_mentions(candidate: CandidateMemory, plan: WritePlan, entities: Sequence[tuple[str, str]]) -> WritePlan:
    if plan.action is WriteAction.SKIP or candidate.category not in _NAMING:
        return plan
    edges = context_writer.mentions(plan.target_uri, candidate.content, entities)
    return replace(plan, relation_ops=[*plan.relation_ops, *edges]) if edges else plan


def counts(how: Iterator[MessageState]) -> dict[str, int]:
    """Return how many messages are new, known and forgotten."""
    counted = Counter(how)
    return {
        "added": counted[MessageState.NEW],
        "known": counted[MessageState.KNOWN],
        "forgotten": counted[MessageState.FORGOTTEN],
    }
