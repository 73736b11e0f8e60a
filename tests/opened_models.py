"""Models built from settings, closed at the end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from knowhub.core.clock import SystemClock
from knowhub.core.ids import RandomIds
from knowhub.providers.http import RequestTiming
from knowhub.settings import Settings

T = TypeVar("T")


@asynccontextmanager
async def build_model(
    open_model: Callable[[Settings, RequestTiming, AsyncExitStack], Awaitable[T]], settings: Settings
) -> AsyncIterator[T]:
    """Open the model of the settings with one of the functions of `wiring/models.py`."""
    async with AsyncExitStack() as stack:
        yield await open_model(settings, RequestTiming(SystemClock(), RandomIds()), stack)
