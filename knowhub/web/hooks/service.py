"""Answers hooks: within their time, whatever else happens, and without asking a model."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from knowhub.bootstrap import Hub
from knowhub.core.errors import KnowHubError, Unavailable
from knowhub.core.request_context import RequestContext
from knowhub.web.hooks.hosts import Action, Host
from knowhub.web.hooks.injection import Injection, Injector
from knowhub.web.hooks.transcripts import Capturer, CaptureState, SentTranscript
from knowhub.web.metrics import Metrics

_MOST_SESSIONS: Final = 1_000
_MOST_CAPTURES: Final = 32
# Reading and writing more takes longer than the agent should wait.
_AWAITED_CHARS: Final = 1024 * 1024
# After these the agent's context holds nothing of what was shown before.
_NEW_CONTEXTS: Final = frozenset({"startup", "clear", "compact"})

_log = structlog.get_logger("knowhub.hooks")


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
                shown = await self._choose(ctx, call, session.shown)
        except TimeoutError:
            is_late = True
            _log.warning("hook_late", host=call.host.name, hook_event=call.event, budget_s=self._budget_s)
        self._metrics.count_hook(call.host.name, call.event, shown.tokens, is_late=is_late)
        return HookAnswer(call.host.make_answer(call.event, shown.text))

    async def close(self) -> None:
        """End the captures that are running after their present commit, and wait for that."""
        self._capturer.end()
        await asyncio.gather(*self._captures, return_exceptions=True)

    def _choose(self, ctx: RequestContext, call: HookCall, shown: set[str]) -> Coroutine[Any, Any, Injection]:
        if call.action is Action.PROMPT:
            return self._injector.show_fitting(ctx, call.session_id, call.text, shown)
        if call.source in _NEW_CONTEXTS:
            shown.clear()
        return self._injector.show_start(ctx, call.session_id, call.text, shown)

    async def _capture(self, ctx: RequestContext, call: HookCall, session: _Session) -> HookAnswer:
        if len(self._captures) >= _MOST_CAPTURES:
            raise Unavailable(f"{_MOST_CAPTURES} transcripts are being read; try again")
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
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session


def _log_failure(task: asyncio.Task[str | None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        detail = error.detail if isinstance(error, KnowHubError) else repr(error)
        _log.error("capture_failed", error=detail)
