"""Unread request data is discarded one connection at a time, so that the event loop stays free."""

import asyncio
from itertools import pairwise

import pytest
from starlette.responses import Response
from uvicorn import Config
from uvicorn.server import ServerState

from knowhub.web.http_protocol import DiscardQueue, HeadLimits, HttpProtocol

pytestmark = pytest.mark.anyio

HEAD = b"POST /api/knowledge HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 16777216\r\n\r\n"
PIECE = b" " * 65_536
CLIENTS = 50


class DiscardedClient(asyncio.Transport):
    """The connection of a client that always has more to send."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.received = b""
        self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.received += bytes(data)

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


async def test_unread_bodies_are_discarded_one_connection_per_loop_turn() -> None:
    config = Config(Response(status_code=503), http="httptools", ws="none", lifespan="off", log_config=None)
    state, limits, queue = ServerState(), HeadLimits(65_536, 100, 60), DiscardQueue()
    clients = [DiscardedClient() for _ in range(CLIENTS)]
    protocols = [HttpProtocol(config, state, {}, limits=limits, discard_queue=queue) for _ in clients]
    for protocol, client in zip(protocols, clients, strict=True):
        protocol.connection_made(client)
        protocol.data_received(HEAD)
    await asyncio.gather(*state.tasks)

    for protocol in protocols:
        protocol.data_received(PIECE)
    paused = [sum(client.is_paused for client in clients)]
    while paused[-1]:
        await asyncio.sleep(0)
        paused.append(sum(client.is_paused for client in clients))

    assert all(client.received.startswith(b"HTTP/1.1 503") for client in clients)
    assert paused[0] == CLIENTS
    assert max(before - after for before, after in pairwise(paused)) == 1
