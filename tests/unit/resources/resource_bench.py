"""The service of resources on stores in memory."""

from typing import Any

from knowhub.core.allowances import TokenBuckets
from knowhub.core.request_context import RequestContext
from knowhub.resources.model import RESOURCES
from knowhub.resources.service import ResourceService
from tests.builders import CountedIds, FakeClock, caller
from tests.fakes.memory_keyring import MemoryKeyring
from tests.fakes.memory_store import MemoryStore
from tests.sealing import ID, memory_vault

LI, WANG = caller(user_id="li"), caller(user_id="wang")
ATLAS = ["project:atlas"]


class ResourceBench:
    """The service of resources on stores in memory."""

    def __init__(self, an_hour: int = 0) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock, CountedIds())
        self.keyring = MemoryKeyring()
        self.service = ResourceService(
            self.store,
            memory_vault(self.keyring),
            TokenBuckets(an_hour, 3600.0, lambda: self.clock.seconds) if an_hour else None,
        )

    def row(self, resource_id: str = ID) -> dict[str, Any]:
        return dict(self.store.view("default").get(RESOURCES, resource_id) or {})

    async def reveal(self, ctx: RequestContext, resource_id: str = ID) -> str | None:
        return (await self.service.reveal(ctx, resource_id)).secure_body
