"""Answers hooks: within their time, whatever else happens, and without asking a model.

An agent is shown fenced text within a number of tokens, and nothing twice in a session.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

from agent_tools.fences import FENCE_NOTE, HEADING, format_rows
from knowhub.bootstrap import Hub
from knowhub.context import uri
from knowhub.context.search_model import MemorySearchResult
from knowhub.core.errors import InvalidInput, KnowHubError, Unavailable
from knowhub.core.recall import MAX_QUERY_CHARS
from knowhub.core.request_context import RequestContext
from knowhub.core.unicode_forms import shorten
from knowhub.knowledge.model import ListQuery, SearchQuery
from knowhub.knowledge.search.retrieval import estimate_tokens
from knowhub.knowledge.table import make_filters
from knowhub.web.hooks.hosts import Action, Host
from knowhub.web.hooks.transcripts import Capturer, CaptureState, SentTranscript
from knowhub.web.metrics import Metrics
from knowhub.web.profile_rows import list_profile

_MAX_SESSIONS: Final = 1_000
_MAX_CAPTURES: Final = 32
# Reading and writing more takes longer than the agent should wait.
_AWAITED_CHARS: Final = 1024 * 1024
# After these events the agent's context no longer has what was shown before.
_NEW_CONTEXTS: Final = frozenset({"startup", "clear", "compact"})

_HEADING: Final = f"{HEADING} {FENCE_NOTE}"
_FOUND: Final = 8
_PROJECT_ROWS: Final = 10
_cut: Final = partial(shorten, limit=600)

Row = Mapping[str, Any]

_log = structlog.get_logger("knowhub.hooks")


@dataclass(frozen=True, slots=True)
class Injection:
    """A text to show, and how many tokens it has by estimate. Empty where nothing fits."""

    text: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class HookCall:
    """A hook that was called. `text` is the prompt, or at the start the name of the folder."""

    host: Host
    event: str
    session_id: str
    text: str = ""
    source: str = ""
    transcript: SentTranscript = field(default_factory=SentTranscript)

    @property
    def action(self) -> Action:
        """Return what is to be done."""
        return self.host.events[self.event]


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer in the form of the host, and the operation if something was written."""

    body: dict[str, Any]
    operation_id: str | None = None


@dataclass(slots=True)
class _Session:
    """What this process knows of a session: what was shown in it, and how far its transcript was read."""

    shown: set[str] = field(default_factory=set)
    capture: CaptureState = field(default_factory=CaptureState)


class HookService:
    """Runs hooks. What it knows of sessions is in memory: after a restart a text may be shown a second time."""

    def __init__(self, hub: Hub, metrics: Metrics) -> None:
        self._budget_s = hub.settings.hook_budget_s
        self._injector = Injector(hub)
        # Files of this machine are read for callers without keys only: they are on this machine.
        folders: tuple[Path, ...] = hub.settings.hook_transcripts if hub.settings.auth == "none" else ()
        self._capturer = Capturer(hub, folders)
        self._metrics = metrics
        self._sessions: OrderedDict[tuple[str, str, str], _Session] = OrderedDict()
        self._captures: set[asyncio.Task[str | None]] = set()

    async def run(self, ctx: RequestContext, call: HookCall) -> HookAnswer:
        """Do what a hook asks for, and answer in the form of its host, after `hook_budget_s` at the latest.

        A capture is waited for half as long, and one of over a MiB not at all; it goes on.
        Raises KnowHubError; a host goes on where the answer is an error.
        """
        session = self._get_session(ctx, call)
        if call.action is Action.CAPTURE:
            return await self._capture(ctx, call, session)
        if call.action is Action.NOTHING:
            return HookAnswer(call.host.make_answer(call.event, ""))
        shown, is_late = Injection(), False
        try:
            async with asyncio.timeout(self._budget_s):
                shown = await self._injector.choose(ctx, call, session.shown)
        except TimeoutError:
            is_late = True
            _log.warning("hook_late", host=call.host.name, hook_event=call.event, budget_s=self._budget_s)
        self._metrics.count_hook(call.host.name, call.event, shown.tokens, is_late=is_late)
        return HookAnswer(call.host.make_answer(call.event, shown.text))

    async def close(self) -> None:
        """End the captures that are running after their present commit, and wait for that."""
        self._capturer.end()
        await asyncio.gather(*self._captures, return_exceptions=True)

    async def _capture(self, ctx: RequestContext, call: HookCall, session: _Session) -> HookAnswer:
        if len(self._captures) >= _MAX_CAPTURES:
            raise Unavailable(f"{_MAX_CAPTURES} transcripts are being read; try again")
        work = self._capturer.capture(ctx, call.host, call.session_id, call.transcript, session.capture)
        task = asyncio.create_task(work, name="capturing a transcript")
        self._captures.add(task)
        task.add_done_callback(self._captures.discard)
        # The agent waits for errors and for the operation only: there is nothing to show it.
        is_long = len(call.transcript.lines or "") > _AWAITED_CHARS
        done, _ = await asyncio.wait({task}, timeout=0 if is_long else self._budget_s / 2)
        self._metrics.count_hook(call.host.name, call.event, 0, is_late=not done and not is_long)
        if not done:
            task.add_done_callback(_log_failure)
            return HookAnswer(call.host.make_answer(call.event, ""))
        return HookAnswer(call.host.make_answer(call.event, ""), task.result())

    def _get_session(self, ctx: RequestContext, call: HookCall) -> _Session:
        key = (ctx.account, ctx.quota_key, f"{call.host.name} {call.session_id}")
        session = self._sessions.setdefault(key, _Session())
        self._sessions.move_to_end(key)
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session


def _log_failure(task: asyncio.Task[str | None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        detail = error.detail if isinstance(error, KnowHubError) else repr(error)
        _log.error("capture_failed", error=detail)


class Injector:
    """Chooses what to show. No language model is asked: a hook must answer at once, and must not cost anything."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def choose(self, ctx: RequestContext, call: HookCall, shown: set[str]) -> Injection:
        """Return the records and memories that are relevant to a prompt, best first.

        At a start: the profile, the newest records of the projects of the caller, and what fits the name of the folder.
        """
        if call.action is Action.PROMPT:
            return self._fit(await self._find(ctx, call.session_id, call.text), shown)
        if call.source in _NEW_CONTEXTS:
            shown.clear()
        # Half of the room is left for the project.
        profile = await list_profile(self._hub, ctx, self._hub.settings.hook_tokens // 2)
        # All of it is the caller's own: the scope would only cost tokens.
        rows = [*({**row, "scope": None, "text": _cut(row["text"])} for row in profile), *await self._list_project(ctx)]
        rows += await self._find(ctx, call.session_id, call.text)
        return self._fit(rows, shown)

    def _fit(self, rows: Iterable[Row], shown: set[str]) -> Injection:
        """Format the first rows that fit into the tokens, and add their ids to `shown`."""
        max_tokens, tokens = self._hub.settings.hook_tokens, estimate_tokens(_HEADING)
        chosen: dict[str, Row] = {}
        for row in rows:
            cost = estimate_tokens(format_rows([row]))
            if row["id"] not in shown and row["id"] not in chosen and tokens + cost <= max_tokens:
                chosen[row["id"]] = row
                tokens += cost
        if not chosen:
            return Injection()
        shown.update(chosen)
        return Injection(f"{_HEADING}\n\n{format_rows(list(chosen.values()))}", tokens)

    async def _list_project(self, ctx: RequestContext) -> list[Row]:
        projects = {scope for scope in ctx.visible or () if scope.startswith("project:")}
        if not projects:
            return []
        page = await self._hub.knowledge.records.page(ctx, ListQuery(make_filters({"scopes": projects}), _PROJECT_ROWS))
        return [_describe_record(orjson.loads(text)) for text in page.records]

    async def _find(self, ctx: RequestContext, session_id: str, text: str) -> list[Row]:
        """Return what is relevant to a text, best first. What was said in this session is left out."""
        query = text.strip()[:MAX_QUERY_CHARS]
        if not query:
            return []
        floor = self._hub.settings.hook_relevance_floor
        search_query = SearchQuery(query, top_k=_FOUND, asks_models=False, floor=floor)
        records = await self._hub.knowledge.search.search(ctx, search_query)
        found = [(row["relevance"], _describe_record(row)) for row in records.records]
        memories = await self._hub.memories.nodes.search_memory(ctx, query, top_k=_FOUND)
        found += _list_relevant(memories, floor, _find_session(ctx, session_id))
        return [row for _, row in sorted(found, key=lambda item: -item[0])]


def _list_relevant(found: MemorySearchResult, floor: float, session: str) -> Iterator[tuple[float, Row]]:
    """Yield the memories above the floor, each with its relevance. A neighbour of a match is no match."""
    scores = {seed.uri: seed.score for seed in found.seed_hits}
    for block in found.blocks:
        score = scores.get(block.uri, 0.0)
        if score >= floor * found.sufficient_score and not f"{block.uri}/".startswith(f"{session}/"):
            row = {"id": block.uri, "kind": block.category, "said_at": block.said_at, "text": _cut(block.abstract)}
            yield min(1.0, score / found.max_score), row


def _find_session(ctx: RequestContext, session_id: str) -> str:
    try:
        return uri.session_uri(uri.memory_context(ctx, session_id))
    except InvalidInput:
        # Who names neither a user nor an agent has no session, and sees those of others.
        return ""


def _describe_record(record: Row) -> Row:
    text = {"title": _cut(record["task"]), "text": _cut(record["content"])}
    return {"id": record["id"], "kind": ", ".join(record["types"]), **text, "warning": record.get("warning")}
