"""A model reads committed sessions in the background: in order, each message once, whatever stops it on the way.

The row of a session lists its unread messages. One operation saves the memories of a segment and marks its messages as
read, so a crash neither loses nor repeats any, and a model that was down catches up.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from knowhub.context.commit import segments
from knowhub.context.commit.segments import Segment, SegmentDecision, ShownMemory
from knowhub.context.model import ContextSummary
from knowhub.context.ports import ContextDirectories, ContextIndex
from knowhub.context.queries import find_memory, list_sessions_to_read
from knowhub.conversations.changes.checks import check_changes
from knowhub.conversations.changes.prompt import ChangePrompt
from knowhub.core.errors import Unavailable
from knowhub.core.language_models import AnswerRejected, ChatFailed, ChatModel
from knowhub.core.model_calls import ModelConversation
from knowhub.core.operation import Committed, Store

_MAX_AT_ONCE: Final = 4
_MAX_ANSWERS: Final = 3
"""So many unusable answers to one segment: then it is left out, so that those behind it are read."""
_FIRST_PAUSE_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 300.0
_WAIT_S: Final = 600.0
_POLL_S: Final = 0.5


class ExtractionStore(Store, Protocol):
    """A store whose accounts can be listed."""

    @property
    def accounts(self) -> Sequence[str]:
        """The accounts that have rows."""


_Owner: TypeAlias = tuple[str, str]
"""An account, and the principal in it whose sessions these are."""


@dataclass(slots=True)
class _Failures:
    """Failures in a row; `until` is when the model is asked again, in the loop's time."""

    count: int = 0
    until: float = 0.0
    problem: str = ""

    @property
    def is_paused(self) -> bool:
        return self.until > asyncio.get_running_loop().time()

    def add(self, failed: ChatFailed) -> None:
        pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**self.count)
        self.count, self.problem = min(self.count + 1, 30), failed.detail
        self.until = asyncio.get_running_loop().time() + pause


@dataclass(slots=True)
class SessionExtraction:
    """Reads committed sessions. The leader of the data directory calls `tick`; every process may wait.

    Sessions of one owner are read one after the other, oldest first, because a later one may correct an earlier one.
    A service that fails stops all owners; an answer of no use, which a session may provoke, stops its owner only.
    """

    store: ExtractionStore
    chat: ChatModel
    index: ContextIndex
    directories: ContextDirectories
    budget_s: float
    request_tick: Callable[[], None]
    _task: "asyncio.Task[None] | None" = None
    _failures: _Failures = field(default_factory=_Failures)
    _unusable: defaultdict[_Owner, _Failures] = field(default_factory=lambda: defaultdict(_Failures))
    _progress: asyncio.Event = field(default_factory=asyncio.Event)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _is_closed: bool = False

    def wake(self) -> None:
        """Have the leader look for sessions that wait."""
        self.request_tick()

    def count_waiting(self) -> int:
        """Return how many messages wait, over all accounts."""
        return sum(session.unread for account in self.store.accounts for session in self._list_sessions(account))

    async def tick(self) -> None:
        """Begin to read what waits; other upkeep does not wait for it.

        Raises Unavailable while the model fails, or while owners wait because its answers about them are of no use.
        """
        task = self._task
        if task is not None and task.done() and not task.cancelled() and (broken := task.exception()) is not None:
            self._task = None
            raise broken
        waiting = self._group_by_owner()
        for owner in self._unusable.keys() - waiting.keys():
            del self._unusable[owner]
        is_due = waiting and not self._failures.is_paused
        if (self._task is None or self._task.done()) and is_due and not self._is_closed:
            self._task = asyncio.create_task(self._read_all(), name="memory-extraction")
        self._arrived.set()
        if self._failures.problem:
            raise Unavailable(f"sessions wait for the model: {self._failures.problem}")
        if self._unusable:
            newest = next(reversed(self._unusable.values())).problem
            who = f"the sessions of {len(self._unusable)} users wait"
            raise Unavailable(f"{who}, because the model's answers are unusable: {newest}")

    async def close(self) -> None:
        """Break off what is under way: it is read after the next start."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])

    async def wait(self, account: str, session_uri: str) -> bool:
        """Wait until a session is read; False where its owner has to wait for the model, or after ten minutes."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _WAIT_S
        while loop.time() < deadline:
            await self.store.refresh(account)
            session = find_memory(self.store.view(account), session_uri)
            if session is None or not session.unread:
                return True
            if self._is_paused((account, session.owner)):
                return False
            self.wake()
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._progress.wait()
        return False

    def _list_sessions(self, account: str) -> Sequence[ContextSummary]:
        return list_sessions_to_read(self.store.view(account))

    async def _read_all(self) -> None:
        """Read until no owner can be read now. An owner who comes later need not wait for those before."""
        reading: dict[_Owner, asyncio.Task[None]] = {}
        try:
            while True:
                for owner, sessions in self._group_by_owner().items():
                    if len(reading) < _MAX_AT_ONCE and owner not in reading and not self._is_paused(owner):
                        reading[owner] = asyncio.create_task(self._read_sessions(owner, sessions))
                if not reading:
                    return
                self._arrived.clear()
                arrival = asyncio.create_task(self._arrived.wait())
                await asyncio.wait([arrival, *reading.values()], return_when=asyncio.FIRST_COMPLETED)
                arrival.cancel()
                for owner in [owner for owner, task in reading.items() if task.done()]:
                    reading.pop(owner).result()
        finally:
            for task in reading.values():
                task.cancel()

    def _group_by_owner(self) -> dict[_Owner, list[ContextSummary]]:
        """Return the waiting sessions of each owner: owners without failures first, then who waits longest."""
        waiting = ((account, session) for account in self.store.accounts for session in self._list_sessions(account))
        found: defaultdict[_Owner, list[ContextSummary]] = defaultdict(list)
        for account, session in sorted(waiting, key=lambda item: (item[1].waits_since, item[1].uri)):
            found[account, session.owner].append(session)
        return dict(sorted(found.items(), key=lambda item: item[0] in self._unusable))

    def _is_paused(self, owner: _Owner) -> bool:
        unusable = self._unusable.get(owner)
        return self._failures.is_paused or (unusable is not None and unusable.is_paused)

    async def _read_sessions(self, owner: _Owner, sessions: Sequence[ContextSummary]) -> None:
        """Read the sessions of one owner, until there is a reason to wait."""
        for session in sessions:
            while await self._has_next(owner[0], session):
                if self._is_paused(owner):
                    return
                await self._read_segment(owner, session)

    async def _has_next(self, account: str, session: ContextSummary) -> bool:
        await self.store.refresh(account)
        now = find_memory(self.store.view(account), session.uri)
        return now is not None and now.live and now.unread > 0

    async def _read_segment(self, owner: _Owner, session: ContextSummary) -> None:
        account = owner[0]
        view = self.store.view(account)
        segment = await asyncio.to_thread(segments.find_next_segment, view, session)
        if segment is None:
            return
        shown = await segments.find_similar(view, self.index, segment)
        decision = SegmentDecision(segment, shown)
        if segment.is_worth_asking:
            asked = await self._ask(owner, segment, shown)
            if asked is None:
                return
            decision = asked
        outcome = await self.store.commit(account, session.owner, decision.decide)
        if isinstance(outcome, Committed):
            await self.directories.project(account, outcome.operation)
        self._signal_progress()

    async def _ask(self, owner: _Owner, segment: Segment, shown: Sequence[ShownMemory]) -> SegmentDecision | None:
        """Return what the model answers; None where it has to be asked later."""
        conversation = ModelConversation(self.chat, self.budget_s)
        prompt = ChangePrompt(segment.messages, [memory for memory, _ in shown], first_new=segment.first_waiting)
        try:
            answered = await conversation.ask(prompt.make_request(), {}, prompt.read_answer)
        except AnswerRejected as failed:
            self._failures = _Failures()
            self._unusable[owner].add(failed)
            self._signal_progress()
            if self._unusable[owner].count < _MAX_ANSWERS:
                return None
            del self._unusable[owner]
            return SegmentDecision(segment, shown, calls=conversation.calls, failure="unusable_answer")
        except ChatFailed as failed:
            self._failures.add(failed)
            self._signal_progress()
            return None
        self._failures = _Failures()
        self._unusable.pop(owner, None)
        changes, refused = await asyncio.to_thread(check_changes, prompt, answered)
        return SegmentDecision(segment, shown, changes, refused, conversation.calls)

    def _signal_progress(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()
