"""MCP over stdin and stdout: one message a line. The library's transport has no limits, and answers no wrong line.

The library is imported after `initialize` was answered: clients wait a few seconds for that answer.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import orjson

from knowhub.web.json_limits import JsonLimits, find_excess
from knowhub.web.json_rpc import EDGE_BYTES, INVALID_REQUEST, find_fault, make_error, read_id
from knowhub.web.mcp.greeting import make_greeting

_PIECE_BYTES: Final = 64 * 1024
_AT_ONCE: Final = 32

Ask: TypeAlias = Callable[[bytes], Awaitable[Mapping[str, Any] | None]]


class _LongLine(NamedTuple):
    """What a line that is too long begins and ends with."""

    beginning: bytes
    end: bytes


class StdioWire:
    """The messages of one client. While it is open, what else reads stdin gets nothing, and prints go to stderr."""

    def __init__(self, max_line_bytes: int, limits: JsonLimits) -> None:
        self._max_line_bytes = max_line_bytes
        self._limits = limits
        self._in, self._out = os.dup(0), os.dup(1)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(2, 1)
        os.close(nowhere)
        self._lines: asyncio.Queue[bytes | EOFError | _LongLine] = asyncio.Queue(1)
        self._writing = asyncio.Lock()
        self._opening: bytes | None = None
        self._is_greeted = False
        # Nothing can interrupt a read of a pipe: the end of the process must not wait for this thread.
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read_lines, args=(loop,), daemon=True, name="reading stdin").start()

    @property
    def is_over(self) -> bool:
        """Return whether the client closed stdin before its first message; known after `greet`, which has read that."""
        return self._opening is None

    async def greet(self) -> str | None:
        """Wait for the first message, and answer it if it is `initialize`; return the version of the protocol then."""
        self._opening = await anext(self._messages(), None)
        greeting = make_greeting(orjson.loads(self._opening)) if self._opening is not None else None
        if greeting is not None:
            self._is_greeted = True
            await self._write(greeting)
        return greeting["result"]["protocolVersion"] if greeting is not None else None

    async def forward(self, ask: Ask) -> None:
        """Answer messages with what `ask` returns for them, until the client closes stdin.

        Some are asked at once; a request that the client cancels is not answered.
        """
        running: WeakValueDictionary[bytes, asyncio.Task[None]] = WeakValueDictionary()
        slots = asyncio.Semaphore(_AT_ONCE)

        async def answer(line: bytes) -> None:
            reply = await ask(line)
            if reply is not None:
                await self._write(reply)

        async def take(line: bytes) -> None:
            message = orjson.loads(line)
            if message.get("method") == "notifications/cancelled":
                # As JSON: 7 and "7" are two ids.
                task = running.get(orjson.dumps((message.get("params") or {}).get("requestId")))
                if task is not None:
                    task.cancel()
                return
            await slots.acquire()
            running[orjson.dumps(message.get("id"))] = task = tasks.create_task(answer(line))
            task.add_done_callback(lambda _: slots.release())

        async with asyncio.TaskGroup() as tasks:
            if self._opening is not None and not self._is_greeted:
                await take(self._opening)
            async for line in self._messages():
                await take(line)

    async def _messages(self) -> AsyncIterator[bytes]:
        """Yield the lines that are messages, and answer the others."""
        while not isinstance(line := await self._lines.get(), EOFError):
            fault = self._find_fault(line)
            if fault is not None:
                await self._write(fault)
            elif isinstance(line, bytes) and line:
                yield line

    def _find_fault(self, line: bytes | _LongLine) -> dict[str, Any] | None:
        if isinstance(line, _LongLine):
            detail = f"a line here is at most {self._max_line_bytes} bytes; this is longer"
            return make_error(INVALID_REQUEST, detail, read_id(line.beginning, line.end))
        excess = find_excess(line, self._limits)
        if excess is not None:
            return make_error(INVALID_REQUEST, excess, read_id(line, line))
        return find_fault(line) if line else None

    async def _write(self, message: Mapping[str, Any]) -> None:
        async with self._writing:
            await asyncio.to_thread(self._write_line, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))

    def _write_line(self, line: bytes) -> None:
        rest = memoryview(line)
        # A client that is gone reads nothing; its end of stdin is closed too.
        with suppress(BrokenPipeError):
            while rest:
                rest = rest[os.write(self._out, rest) :]

    def _read_lines(self, loop: asyncio.AbstractEventLoop) -> None:
        # The event loop ends first where the process is interrupted.
        with suppress(CancelledError, RuntimeError):
            for line in chain(_split(self._in, self._max_line_bytes), (EOFError(),)):
                asyncio.run_coroutine_threadsafe(self._lines.put(line), loop).result()


def _split(source: int, max_bytes: int) -> Iterator[bytes | _LongLine]:
    """Yield the lines of a file descriptor, without white space around them."""
    line = bytearray()
    is_too_long = False
    while piece := os.read(source, _PIECE_BYTES):
        *ended, rest = piece.split(b"\n")
        for part in ended:
            line += part
            yield _finish(line, is_too_long=is_too_long or len(line) > max_bytes)
            line.clear()
            is_too_long = False
        line += rest
        if len(line) > max_bytes:
            del line[EDGE_BYTES:-EDGE_BYTES]
            is_too_long = True
    if line:
        yield _finish(line, is_too_long=is_too_long)


def _finish(line: bytearray, *, is_too_long: bool) -> bytes | _LongLine:
    return _LongLine(bytes(line[:EDGE_BYTES]), bytes(line[-EDGE_BYTES:])) if is_too_long else bytes(line).strip()
