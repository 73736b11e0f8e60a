"""How many bytes of bodies are held at once: of the process and of each caller, until their requests are answered."""

import asyncio
import json
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.types import Message, Receive, Scope, Send

from knowhub.core.request_context import Role
from knowhub.identity.model import AuthenticatedCaller, KeyHolder
from knowhub.settings import Settings
from knowhub.web.auth import CALLER
from knowhub.web.json_limits import JsonLimits
from knowhub.web.request_guard import BODY, BodyRules, RequestGuard
from tests.keys import root_caller

pytestmark = pytest.mark.anyio

KIB = 1024
REFUSED = (503, b"1")


class GuardedApp:
    """A guard before an app that answers when the test allows it."""

    def __init__(self, held_kib: int = 0, caller_kib: int = 0, arrival_timeout_s: float = 30) -> None:
        self.may_answer = asyncio.Event()
        self.read = b""
        rules = BodyRules(
            max_bytes=100 * KIB,
            batch_bytes=100 * KIB,
            held_bytes=held_kib * KIB,
            caller_bytes=caller_kib * KIB,
            json=JsonLimits(64, 1000),
            large=frozenset(),
            large_below=(),
            lines={},
            arrival_timeout_s=arrival_timeout_s,
        )
        self.guard = RequestGuard(self._app, rules)

    async def _app(self, scope: Scope, _receive: Receive, send: Send) -> None:
        await self.may_answer.wait()
        self.read = scope[BODY]
        if scope["path"] == "/broken":
            raise RuntimeError("a bug")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Upload:
    """A request whose body comes when the test sends it."""

    def __init__(self, guarded: GuardedApp, address: str = "127.0.0.1", **scope: Any) -> None:  # noqa: ANN401 -- of ASGI
        self.pieces: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []
        headers = [(b"content-type", b"application/json"), *scope.pop("headers", ())]
        whole = {"type": "http", "method": "POST", "path": "/api/knowledge", "client": (address, 1), "headers": headers}
        self.task = asyncio.create_task(guarded.guard(whole | scope, self.pieces.get, self._note))

    async def _note(self, message: Message) -> None:
        self.sent.append(message)

    async def send(self, kib: int, *, more: bool = True) -> "Upload":
        await self.pieces.put({"type": "http.request", "body": b" " * kib * KIB, "more_body": more})
        await asyncio.sleep(0.01)
        return self

    async def leave(self) -> None:
        await self.pieces.put({"type": "http.disconnect"})
        await self.task

    @property
    def answer(self) -> tuple[int, bytes | None] | None:
        if not self.sent:
            return None
        return self.sent[0]["status"], dict(self.sent[0]["headers"]).get(b"retry-after")


async def test_a_body_counts_from_its_first_byte_until_its_answer() -> None:
    guarded = GuardedApp(caller_kib=64)
    half = await Upload(guarded).send(40)
    assert (await Upload(guarded).send(30)).answer == REFUSED

    whole = await half.send(10, more=False)
    assert (await Upload(guarded).send(20, more=False)).answer == REFUSED

    guarded.may_answer.set()
    await whole.task
    assert whole.answer == (200, None)
    assert (await Upload(guarded).send(64, more=False)).answer == (200, None)


async def test_a_refused_body_gets_a_problem_and_does_not_count() -> None:
    guarded = GuardedApp(caller_kib=64)
    await Upload(guarded).send(40)

    refused = await (await Upload(guarded).send(20)).send(5)
    problem = json.loads(refused.sent[1]["body"])

    assert refused.answer == REFUSED
    assert (problem["type"], problem["status"]) == ("urn:knowhub:problem:unavailable", 503)
    assert "65536 bytes" in problem["detail"]
    assert (await Upload(guarded).send(24)).answer is None


async def test_callers_have_separate_limits_and_a_common_one() -> None:
    guarded = GuardedApp(held_kib=100, caller_kib=60)
    await Upload(guarded, "127.0.0.1").send(60)

    other = await Upload(guarded, "127.0.0.2").send(40)
    assert other.answer is None
    assert (await Upload(guarded, "127.0.0.3").send(1)).answer == REFUSED

    await other.leave()
    assert (await Upload(guarded, "127.0.0.3").send(40)).answer is None


async def test_the_root_key_has_only_the_common_limit() -> None:
    guarded = GuardedApp(held_kib=100, caller_kib=60)
    root: dict[str, Any] = {CALLER: AuthenticatedCaller(KeyHolder(), root_caller())}
    assert root_caller().role is Role.ROOT

    assert (await Upload(guarded, **root).send(90)).answer is None
    assert (await Upload(guarded, **root).send(11)).answer == REFUSED


async def test_bodies_of_failed_requests_are_no_longer_counted() -> None:
    guarded = GuardedApp(held_kib=100, arrival_timeout_s=0.2)
    guarded.may_answer.set()

    await (await Upload(guarded).send(60)).leave()
    with pytest.raises(RuntimeError, match="a bug"):
        await (await Upload(guarded, path="/broken").send(60, more=False)).task
    late = await Upload(guarded).send(60)
    await late.task
    assert late.answer == (408, None)
    large = await (await Upload(guarded).send(90)).send(20)

    assert (await Upload(guarded).send(100, more=False)).answer == (200, None)
    assert (await large.send(1, more=False)).answer == (413, None)


async def test_a_body_counts_as_large_as_its_headers_announce_it() -> None:
    guarded = GuardedApp(caller_kib=100)

    def announcing(kib: int) -> Upload:
        return Upload(guarded, headers=[(b"content-length", b"%d" % (kib * KIB))])

    await announcing(60).send(1)
    refused = announcing(60)
    await asyncio.sleep(0.01)

    # Not a byte of it was read.
    assert refused.answer == REFUSED
    assert (await announcing(40).send(40)).answer is None
    # A body that is too large is not held, and gets 413.
    assert (await announcing(200).send(200, more=False)).answer == (413, None)


async def test_a_body_sent_byte_by_byte_arrives_whole() -> None:
    guarded = GuardedApp()
    guarded.may_answer.set()
    content = json.dumps({"content": "byte by byte " * 1000}).encode()
    upload = Upload(guarded)

    for index, byte in enumerate(content):
        more = index < len(content) - 1
        await upload.pieces.put({"type": "http.request", "body": bytes([byte]), "more_body": more})
    await upload.task

    assert guarded.read == content


@pytest.mark.parametrize(
    "scope", [{"http_version": "1.0"}, {"headers": [(b"connection", b"Close")]}], ids=["HTTP/1.0", "Connection: close"]
)
async def test_a_refused_body_is_drained_if_the_connection_closes(
    scope: dict[str, Any],
) -> None:
    guarded = GuardedApp(held_kib=100)
    await Upload(guarded).send(90)

    refused = await Upload(guarded, **scope).send(20)
    assert refused.answer is None
    assert (await refused.send(20, more=False)).answer == REFUSED


async def test_without_limits_everything_is_held() -> None:
    guarded = GuardedApp()

    assert [(await Upload(guarded).send(100)).answer for _ in range(5)] == [None] * 5


@pytest.mark.parametrize("name", ["max_held_body_bytes", "max_held_body_bytes_per_caller"])
def test_a_limit_below_the_largest_body_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(ValidationError, match="the size of the largest body"):
        Settings.model_validate({name: 16 * 1024 * KIB - 1})

    assert getattr(Settings.model_validate({name: 0}), name) == 0
