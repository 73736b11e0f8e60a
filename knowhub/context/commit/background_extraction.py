"""A model reads committed sessions in the background: in order, each message once, whatever stops it on the way.

What waits is read off the rows: a session says which of its messages wait, and one operation writes what a segment
teaches and that it was read. So a crash loses and doubles nothing, and a model that was down catches up.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from knowhub.context.commit import segments
from knowhub.context.commit.segments import Segment, SegmentDecision, ShownMemory
from knowhub.context.model import ContextSummary
from knowhub.context.ports import ContextDirectories, ContextIndex
from knowhub.context.queries import find_memory, list_sessions_to_read
from knowhub.conversations.change_checks import check_changes
from knowhub.conversations.memory_changes import ChangePrompt
from knowhub.core.errors import Unavailable
from knowhub.core.language_models import AnswerRejected, ChatFailed, ChatModel
from knowhub.core.model_calls import ModelConversation
from knowhub.core.operation import Committed, Store

_MOST_AT_ONCE: Final = 4
_MOST_ANSWERS: Final = 3
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


@dataclass(slots=True)
class _Failures:
    """The failures of the model in a row; `until` is when it is asked again, in the loop's time."""

    count: int = 0
    until: float = 0.0
    problem: str = ""

    def note(self, failed: ChatFailed) -> None:
        pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**self.count)
        self.count, self.problem = min(self.count + 1, 30), failed.detail
        self.until = asyncio.get_running_loop().time() + pause


@dataclass(slots=True)
class SessionExtraction:
    """Reads committed sessions. The leader of the data directory calls `tick`; every process may wait.

    Sessions of one owner are read one after the other, oldest first, because a later one may correct an earlier one.
    """

    store: ExtractionStore
    chat: ChatModel
    index: ContextIndex
    directories: ContextDirectories
    budget_s: float
    request_tick: Callable[[], None]
    _task: "asyncio.Task[None] | None" = None
    _failures: _Failures = field(default_factory=_Failures)
    _unusable: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _progress: asyncio.Event = field(default_factory=asyncio.Event)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _is_closed: bool = False

    def wake(self) -> None:
        """Have the leader look for sessions that wait."""
        self.request_tick()

    @property
    def problem(self) -> str | None:
        """Why the model is not asked at present."""
        return self._failures.problem or None

    def count_waiting(self) -> int:
        """Return how many messages wait, over all accounts."""
        return sum(head.unread for account in self.store.accounts for head in self._list_sessions(account))

    async def tick(self) -> None:
        """Begin to read what waits; other upkeep does not wait for it. Raises Unavailable while the model fails."""
        task = self._task
        if task is not None and task.done() and not task.cancelled() and (broken := task.exception()) is not None:
            self._task = None
            raise broken
        is_due = asyncio.get_running_loop().time() >= self._failures.until
        if (self._task is None or self._task.done()) and is_due and not self._is_closed and self.count_waiting():
            self._task = asyncio.create_task(self._read_all(), name="memory-extraction")
        self._arrived.set()
        if self._failures.problem:
            raise Unavailable(f"sessions wait for the model: {self._failures.problem}")

    async def close(self) -> None:
        """Break off what is under way: it is read after the next start."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])

    async def wait(self, account: str, session_uri: str) -> bool:
        """Wait until a session is read; False where the model fails, or it takes over ten minutes."""
        loop = asyncio.get_running_loop()
        deadline, failures = loop.time() + _WAIT_S, self._failures.count
        while loop.time() < deadline:
            await self.store.refresh(account)
            head = find_memory(self.store.view(account), session_uri)
            if head is None or not head.unread:
                return True
            if self._failures.count > failures or self._failures.until > loop.time():
                return False
            self.wake()
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._progress.wait()
        return False

    def _list_sessions(self, account: str) -> Sequence[ContextSummary]:
        return list_sessions_to_read(self.store.view(account))

    async def _read_all(self) -> None:
        """Read until nothing waits, or the model fails. An owner who comes later need not wait for those before."""
        reading: dict[tuple[str, str], asyncio.Task[bool]] = {}
        try:
            while True:
                for key, heads in self._group_by_owner().items():
                    if len(reading) < _MOST_AT_ONCE and key not in reading:
                        reading[key] = asyncio.create_task(self._read_sessions(key[0], heads))
                if not reading:
                    return
                self._arrived.clear()
                arrival = asyncio.create_task(self._arrived.wait())
                await asyncio.wait([arrival, *reading.values()], return_when=asyncio.FIRST_COMPLETED)
                arrival.cancel()
                outcomes = [reading.pop(key).result() for key, task in [*reading.items()] if task.done()]
                if not all(outcomes):
                    await asyncio.gather(*reading.values())
                    return
        finally:
            for task in reading.values():
                task.cancel()

    def _group_by_owner(self) -> dict[tuple[str, str], list[ContextSummary]]:
        """Return the sessions that wait of each owner; who waits longest comes first."""
        waiting = ((account, head) for account in self.store.accounts for head in self._list_sessions(account))
        found: defaultdict[tuple[str, str], list[ContextSummary]] = defaultdict(list)
        for account, head in sorted(waiting, key=lambda item: (item[1].waits_since, item[1].uri)):
            found[account, head.owner].append(head)
        return found

    async def _read_sessions(self, account: str, heads: Sequence[ContextSummary]) -> bool:
        """Read the sessions of one owner; False where the model fails, so that the rest has to wait."""
        for head in heads:
            while await self._has_next(account, head):
                if self._failures.until > asyncio.get_running_loop().time():
                    return False
                if not await self._read_segment(account, head):
                    return False
        return True

    async def _has_next(self, account: str, head: ContextSummary) -> bool:
        await self.store.refresh(account)
        now = find_memory(self.store.view(account), head.uri)
        return now is not None and now.live and now.unread > 0

    async def _read_segment(self, account: str, head: ContextSummary) -> bool:
        view = self.store.view(account)
        segment = await asyncio.to_thread(segments.next_segment, view, head)
        if segment is None:
            return True
        shown = await segments.find_similar(view, self.index, segment)
        decision = SegmentDecision(segment, shown)
        if segment.is_worth_asking:
            asked = await self._ask(segment, shown)
            if asked is None:
                return False
            decision = asked
        outcome = await self.store.commit(account, head.owner, decision.decide)
        if isinstance(outcome, Committed):
            await self.directories.project(account, outcome.operation)
        self._progress.set()
        self._progress = asyncio.Event()
        return True

    async def _ask(self, segment: Segment, shown: Sequence[ShownMemory]) -> SegmentDecision | None:
        """Return what the model answers; None where it has to be asked later."""
        conversation = ModelConversation(self.chat, self.budget_s)
        prompt = ChangePrompt(segment.messages, [memory for memory, _ in shown], new=segment.new)
        key = f"{segment.session.uri} {segment.first}"
        try:
            answered = await conversation.ask(prompt.make_request(), {}, prompt.read_answer)
        except AnswerRejected as failed:
            self._unusable[key] += 1
            if self._unusable[key] >= _MOST_ANSWERS:
                del self._unusable[key]
                return SegmentDecision(segment, shown, calls=conversation.calls, failure="unusable_answer")
            self._fail(failed)
            return None
        except ChatFailed as failed:
            self._fail(failed)
            return None
        self._failures = _Failures()
        self._unusable.pop(key, None)
        changes, refused = await asyncio.to_thread(check_changes, prompt, answered)
        return SegmentDecision(segment, shown, changes, refused, conversation.calls)

    def _fail(self, failed: ChatFailed) -> None:
        self._failures.note(failed)
        self._progress.set()
        self._progress = asyncio.Event()
