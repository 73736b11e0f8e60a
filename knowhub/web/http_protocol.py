"""The HTTP protocol of the server: uvicorn's, with limits on heads of requests, and addresses as people type them."""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from knowhub.web.error_responses import ProblemKind, get_title, make_problem
from knowhub.web.middleware import SAFE_METHODS
from knowhub.web.request_guard import HAS_ARRIVED

_REQUEST_LINE: Final = re.compile(rb"[A-Z]{1,20} (/[^ \r\n]*) HTTP/1\.[01]\r\n")
_PERCENT_ENCODED: Final = [bytes([byte]) if byte < 0x80 else b"%%%02X" % byte for byte in range(256)]  # noqa: PLR2004 -- ASCII
# Requests that a client may send before the first of them is answered. Each takes some kB.
MAX_SENT_AHEAD: Final = 100
# How long, and how much, is read of a client that goes on sending: it would not see an answer on a closed connection.
_LINGER_S: Final = 2.0
_LINGER_BYTES: Final = 64 * 1024 * 1024
# How long after a piece that is thrown away the next one is read, of whichever connection.
_DISCARD_PAUSE_S: Final = 0.001

_HEAD: Final = "the request line with the headers of a request"
_UNREADABLE: Final = (
    "this is no HTTP request that can be read; in an address all but ASCII is percent-encoded, "
    "as `curl -G --data-urlencode 'q=…'` does"
)
_SENT_AHEAD: Final = f"at most {MAX_SENT_AHEAD} requests may be sent on a connection before the first is answered"


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """How large the head of a request may be: bytes of request line and headers together, and how many headers.

    The same holds for what a chunked body has beside its data, such as trailers. `arrival_timeout_s` is how long all
    of it may take.
    """

    max_bytes: int
    max_fields: int
    arrival_timeout_s: float


class DiscardQueue:
    """The connections of a process whose data is thrown away. They are read in turns, a piece a millisecond.

    A hundred clients that send what nobody reads would otherwise take all of the event loop's time.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def read_later(self, resume_reading: Callable[[], None]) -> None:
        """Read from a connection again when it is its turn."""
        self._waiting.append(resume_reading)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(_DISCARD_PAUSE_S, self._read_next)

    def _read_next(self) -> None:
        self._waiting[0]()
        self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_later(_DISCARD_PAUSE_S, self._read_next)


class HttpProtocol(HttpToolsProtocol):
    """Limits what is read of a request before anybody looks at it, and answers what cannot be read as every error is.

    It also percent-encodes what is not ASCII in an address: `curl 'http://…/search?q=索引'` sends the bytes as they
    were typed, which the parser refuses.
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 -- uvicorn's own
        limits: HeadLimits,
        discard_queue: DiscardQueue,
        **options: Any,  # noqa: ANN401 -- uvicorn's own
    ) -> None:
        super().__init__(*arguments, **options)
        self._limits = limits
        self._discard_queue = discard_queue
        # Bytes that were read since the last head ended or the last data of a body came: they are held, or say nothing.
        self._pending_bytes = 0
        self._fields = 0
        self._is_in_head = False
        self._is_in_body = False
        self._deadline: asyncio.TimerHandle | None = None
        # What a callback below found wrong; the parser itself knows only that it cannot read on.
        self._fault: tuple[ProblemKind, str] = (ProblemKind.MALFORMED_REQUEST, _UNREADABLE)
        self._is_refused = False
        self._discarded_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Take in what the client sent. An address that comes in two pieces is left to the parser."""
        if not (data.isascii() or self._is_in_head or self._is_in_body):
            data = _encode_address(data)
        # In pieces that fit the limit: the parser holds on to every byte of a head that it has seen.
        start = 0
        while start < len(data) and not self._is_refused:
            room = self._limits.max_bytes - self._pending_bytes
            if room <= 0:
                detail = f"{_HEAD} has at most {self._limits.max_bytes} bytes"
                self._refuse(ProblemKind.HEADERS_TOO_LARGE, detail)
                break
            piece = data[start : start + room]
            start += len(piece)
            self._pending_bytes += len(piece)
            super().data_received(piece)
        if self._is_refused:
            self._discard(len(data) - start)
        elif self._is_in_head and self._pending_bytes and self._deadline is None:
            self._deadline = self.loop.call_later(self._limits.arrival_timeout_s, self._handle_deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End the connection, unless a request is being answered."""
        if self._is_refused:
            self.transport.close()
            return
        super().shutdown()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 -- what the parser says of it helps nobody
        """Answer what the parser refused, or one of the callbacks below."""
        self._refuse(*self._fault)

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a request."""
        if len(self.pipeline) >= MAX_SENT_AHEAD:
            self._fault = (ProblemKind.MALFORMED_REQUEST, _SENT_AHEAD)
            raise ValueError(_SENT_AHEAD)
        super().on_message_begin()
        self._fields = self._discarded_bytes = 0
        self._is_in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take in a header. A trailer is counted and dropped, because the headers were checked already."""
        self._fields += 1
        if self._fields > self._limits.max_fields:
            detail = f"a request has at most {self._limits.max_fields} headers"
            self._fault = (ProblemKind.HEADERS_TOO_LARGE, detail)
            raise ValueError(detail)
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hand the request to the app."""
        self._pending_bytes = 0
        self._is_in_head, self._is_in_body = False, True
        self._cancel_deadline()
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Begin a chunk of a body; the last one is empty, and trailers follow."""
        self._pending_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Take in data of a body; throw it away where nobody reads it, or where its request is answered already."""
        self._pending_bytes = 0
        if self.cycle.response_complete or self.cycle.scope["method"] in SAFE_METHODS:
            self._discard(len(body))
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._pending_bytes = 0
        self._is_in_body = False
        self.scope[HAS_ARRIVED] = True  # type: ignore[typeddict-unknown-key]  # the guard reads it
        super().on_message_complete()

    # Refusals.

    def _handle_deadline(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            # Nothing is read on while another request is answered, which may take longer.
            self._deadline = self.loop.call_later(self._limits.arrival_timeout_s, self._handle_deadline)
            return
        detail = f"{_HEAD} must arrive within {self._limits.arrival_timeout_s:g} seconds"
        self._refuse(ProblemKind.REQUEST_TIMEOUT, detail)

    def _refuse(self, kind: ProblemKind, detail: str) -> None:
        """Answer that the request is not read, and hang up; what the client still sends is thrown away for a moment."""
        self._is_refused = True
        self._cancel_deadline()
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(self._answer(kind, detail))
        if cycle is not None and not cycle.response_complete:
            # Nobody reads on: the rest of this request, or of one before it, is not to be had.
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)

    def _answer(self, kind: ProblemKind, detail: str) -> bytes:
        body, media_type = make_problem(kind, detail, "")
        head = [
            b"HTTP/1.1 %d %s" % (kind.status, get_title(kind.status).encode()),
            *(b"%s: %s" % header for header in self.server_state.default_headers),
            b"content-type: " + media_type.encode(),
            b"content-length: %d" % len(body),
            b"connection: close",
        ]
        return b"\r\n".join([*head, b"", body])

    def _discard(self, count: int) -> None:
        self._discarded_bytes += count
        if self._discarded_bytes > _LINGER_BYTES:
            self.transport.abort()
        elif not self.flow.read_paused:
            self.flow.pause_reading()
            self._discard_queue.read_later(self.flow.resume_reading)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _encode_address(data: bytes) -> bytes:
    line = _REQUEST_LINE.match(data)
    if line is None:
        return data
    start, end = line.span(1)
    return data[:start] + b"".join(map(_PERCENT_ENCODED.__getitem__, line[1])) + data[end:]
