"""The one HTTP client for servers that think, and a request to such a server: bounded, retried, never redirected."""

import asyncio
import codecs
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeAlias

import httpx

from knowhub.core.clock import Clock
from knowhub.core.ids import Ids
from knowhub.core.unicode_forms import shorten
from knowhub.providers.json_answers import load_json
from knowhub.providers.redaction import Redaction

_CONNECT_TIMEOUT_S = 5.0
_IDLE_CONNECTION_S = 30.0
_HIGHEST_PORT = 65535
_ERROR_BYTES = 16 * 1024
_DETAIL_CHARACTERS = 200
_MAX_TOKENS = 1_000_000_000
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0
_MAX_DOUBLINGS = 10
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR, _NOT_IMPLEMENTED = 500, 501
_TRANSIENT = frozenset({408, 409, 425, _TOO_MANY_REQUESTS})
# A request that timed out, or that its caller left (nginx), may have been worked on.
_MAYBE_BILLED = frozenset({408, 499})
# By these a server says that the request is wrong, not that it is ill: they do not open the breaker for others.
_REQUEST_ERRORS = frozenset({400, 413, 422})
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """Where a server is, what a request to it may take, and when it is left alone.

    An attempt may take `attempt_timeout_s`, or its share of the time that all attempts have, if that is more.
    `max_attempts` counts the first one too. The breaker opens after `breaker_failures` failed calls in a row, for
    `breaker_cool_down_s`; after 0, never.
    """

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    attempt_timeout_s: float = 20.0
    max_attempts: int = 3
    max_answer_bytes: int = 1024 * 1024
    breaker_failures: int = 5
    breaker_cool_down_s: float = 30.0


@dataclass(frozen=True, slots=True)
class RequestTiming:
    """What waiting needs of the world; `ids` gives the digits by which pauses differ from one another."""

    clock: Clock
    ids: Ids
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


class CallFailed(Exception):
    """A request came to nothing; `detail` holds no key and is short. `late` when it was time that ran out.

    `is_free` when the server surely did not work for it, and so bills nothing: it was not reached, or refused.
    `is_request_error` when the fault is in what was asked, and not in the server: another request may go well.
    """

    is_request_error = False

    def __init__(self, detail: str, *, late: bool = False, is_free: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.late = late
        self.is_free = is_free


class TransientFailure(CallFailed):
    """It may go well the next time; `retry_after_s` is what the server asked for."""

    def __init__(
        self, detail: str, *, late: bool = False, is_free: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(detail, late=late, is_free=is_free)
        self.retry_after_s = retry_after_s


class RequestRejected(CallFailed):
    """The server does not want this request; `said` is its body, cut."""

    def __init__(self, detail: str, status: int, said: str, *, is_free: bool = False) -> None:
        super().__init__(detail, is_free=is_free)
        self.status = status
        self.said = said
        self.is_request_error = status in _REQUEST_ERRORS


class InvalidResponse(CallFailed):
    """The server answered something that is no answer."""


class UnusableAnswer(InvalidResponse):
    """The server works, but the answer of its model is unusable. A hostile text in the question may cause that."""

    is_request_error = True


Sending: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


def make_client(proxy: str | None = None, ca_file: Path | None = None) -> httpx.AsyncClient:
    """Make the client that all providers share: a new one for each call would cost 19 ms.

    `proxy` is the address of an HTTP proxy, `ca_file` the certificates to trust in place of the usual ones.
    Raises ValueError or OSError when they cannot be used.
    """
    return httpx.AsyncClient(
        limits=httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=_IDLE_CONNECTION_S),
        timeout=httpx.Timeout(_CONNECT_TIMEOUT_S),
        # Settings alone read the environment. HTTP_PROXY would capture a model on loopback too, a SOCKS proxy in it
        # makes httpx refuse to start, and .netrc would send a password that nobody meant for this server.
        trust_env=False,
        proxy=proxy,
        verify=True if ca_file is None else ssl.create_default_context(cafile=ca_file),
        # The key would be carried along to wherever a redirect points.
        follow_redirects=False,
    )


class Endpoint:
    """A server with an interface of JSON over POST. Construction raises ValueError for an address or key of no use."""

    def __init__(self, options: EndpointOptions, http: httpx.AsyncClient, timing: RequestTiming) -> None:
        self._options = options
        self._http = http
        self._timing = timing
        self._base = _check_base_url(options.base_url)
        key = _check_api_key(options.api_key)
        self.redaction = Redaction(key)
        # Not compressed: a megabyte of it would be a gigabyte in memory before anyone could count.
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    async def post(self, path: str, body: bytes, deadline: float, sending: Sending = nullcontext) -> dict[str, Any]:
        """Send `body` to `path` below the base URL and return the JSON object that answers it.

        What may pass is tried again, as long as the pause before it ends before `deadline` (the loop's time). Each
        attempt runs within a `sending()`, which may forbid it by an error of its own. Raises CallFailed.
        """
        answer = await self.post_for_any(path, body, deadline, sending)
        if not isinstance(answer, dict):
            raise InvalidResponse("the server's answer is no JSON object")
        return answer

    async def post_for_any(
        self, path: str, body: bytes, deadline: float, sending: Sending = nullcontext
    ) -> dict[str, Any] | list[Any]:
        """Do as `post` does, and return a JSON list where the server answers with one."""
        # Work that has minutes, such as reading a session in the background, waits for a slow model that long.
        left_s = deadline - asyncio.get_running_loop().time()
        limit_s = max(self._options.attempt_timeout_s, left_s / self._options.max_attempts)
        for attempt in range(self._options.max_attempts - 1):
            try:
                async with sending():
                    return await self._attempt(path, body, limit_s)
            except TransientFailure as failure:
                pause_s = self._get_delay_s(failure, attempt)
                if pause_s >= deadline - asyncio.get_running_loop().time():
                    raise
            await self._timing.sleep(pause_s)
        async with sending():
            return await self._attempt(path, body, limit_s)

    def _get_delay_s(self, failure: TransientFailure, attempt: int) -> float:
        if failure.retry_after_s is not None:
            return failure.retry_after_s
        # Between half of it and all: callers that failed together do not come back together.
        share = 0.5 + int(self._timing.ids.hex(4), 16) / 0x20000
        return share * min(_FIRST_PAUSE_S * 2.0 ** min(attempt, _MAX_DOUBLINGS), _LONGEST_PAUSE_S)

    async def _attempt(self, path: str, body: bytes, limit_s: float) -> dict[str, Any] | list[Any]:
        url = self._base + path
        timeout = httpx.Timeout(limit_s, connect=min(_CONNECT_TIMEOUT_S, limit_s))
        try:
            # httpx counts its timeout anew at every byte: a server that drips would hold the caller for ever.
            async with (
                asyncio.timeout(limit_s),
                self._http.stream("POST", url, content=body, headers=self._headers, timeout=timeout) as response,
            ):
                received = await self._read_body(response)
        except (TimeoutError, httpx.TimeoutException) as error:
            is_free = isinstance(error, _NEVER_SENT)
            raise TransientFailure(
                f"the server did not answer within {limit_s:g} s", late=True, is_free=is_free
            ) from None
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError, OverflowError, RuntimeError) as error:
            # Its text may repeat what the server sent; the cause is not chained, so that no log shows it uncleaned.
            detail = self._clean(f"the server cannot be reached: {type(error).__name__}: {error}")
            raise TransientFailure(detail, is_free=isinstance(error, _NEVER_SENT)) from None
        return self._check_response(response, received)

    async def _read_body(self, response: httpx.Response) -> bytes:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in {"", "identity"}:
            raise InvalidResponse("the server sent a compressed answer, which was not asked for")
        limit = self._options.max_answer_bytes if response.is_success else _ERROR_BYTES
        received = bytearray()
        # Leaving early closes the connection, and what is still to come is never read.
        async for chunk in response.aiter_raw():
            received += chunk
            if len(received) > limit and response.is_success:
                raise UnusableAnswer(f"the answer is over {limit} bytes")
            if len(received) > limit:
                break
        return bytes(received[:limit])

    def _check_response(self, response: httpx.Response, received: bytes) -> dict[str, Any] | list[Any]:
        received = received.removeprefix(codecs.BOM_UTF8)
        parsed = load_json(received)
        status = response.status_code
        if response.is_success:
            # Some servers, OpenRouter among them, answer 200 and name the failure inside.
            hidden = parsed.get("error") if isinstance(parsed, dict) else None
            if not hidden:
                if parsed is None:
                    raise InvalidResponse("the server's answer is no JSON object")
                return parsed
            status = _get_code(hidden)
        said = received.decode("utf-8", "replace")
        detail = self._clean(f"the server answered {status}: {_get_message(parsed) or said}")
        if status in _TRANSIENT or (status >= _SERVER_ERROR and status != _NOT_IMPLEMENTED):
            retry_after_s = _parse_retry_after(response.headers, self._timing.clock)
            raise TransientFailure(detail, is_free=_is_free(response.status_code), retry_after_s=retry_after_s)
        raise RequestRejected(detail, status, said, is_free=_is_free(response.status_code))

    def _clean(self, text: str) -> str:
        """Put `text` on one short line without the key, which some servers repeat."""
        line = " ".join(
            "".join(sign if sign.isprintable() else " " for sign in self.redaction.redact_error(text)).split()
        )
        return shorten(line, _DETAIL_CHARACTERS)


def _check_base_url(base_url: str) -> str:
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL:
        url = httpx.URL("")
    # httpx accepts any port number, and connecting to an invalid port raises none of its errors.
    is_address = url.scheme in {"http", "https"} and bool(url.host) and (url.port or 0) <= _HIGHEST_PORT
    # httpx writes addresses to its log, so they hold no secret; the value is not repeated here either.
    if not is_address or url.userinfo or url.query or url.fragment:
        raise ValueError(
            "the model server's base URL is an http address such as http://127.0.0.1:11434/v1, "
            "without a user, password, query or fragment; a key is set as the API key"
        )
    return str(url).rstrip("/")


def _check_api_key(api_key: str | None) -> str:
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError("the model server's API key holds characters that a header cannot carry")
    return key


def _is_free(status: int) -> bool:
    """Return whether this answer's own status means that no model was asked.

    A failure named inside of a 200, and one of the 5xx, may come after the work was done.
    """
    refuses = not httpx.codes.is_success(status) and status < _SERVER_ERROR
    return status == _NOT_IMPLEMENTED or (refuses and status not in _MAYBE_BILLED)


def _get_code(error: object) -> int:
    code = error.get("code") if isinstance(error, Mapping) else None
    is_status = isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600  # noqa: PLR2004 -- HTTP's
    return code if isinstance(code, int) and is_status else _SERVER_ERROR


def _get_message(parsed: object) -> str:
    error = parsed.get("error", parsed) if isinstance(parsed, Mapping) else None
    if isinstance(error, Mapping):
        error = next((error[name] for name in ("message", "detail") if error.get(name)), None)
    return error if isinstance(error, str) else ""


def _parse_retry_after(headers: httpx.Headers, clock: Clock) -> float | None:
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
        # One of HTTP's three forms names no zone, and means UTC as the others do, not the one of this machine.
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(0.0, zoned.timestamp() - clock.now())
    except (ValueError, OverflowError, OSError):
        return None


def get_count(answer: Mapping[str, Any], name: str) -> int | None:
    """Return how many tokens the server counted, such as `prompt_tokens`; None where it says nothing of use."""
    counts = answer.get("usage")
    count = counts.get(name) if isinstance(counts, Mapping) else None
    return count if type(count) is int and 0 <= count <= _MAX_TOKENS else None


def estimate_request_tokens(text: bytes) -> int:
    """Guess the tokens of UTF-8 text where a server does not count: a Chinese character, or three letters, are one."""
    return len(text) // 3 + 1
