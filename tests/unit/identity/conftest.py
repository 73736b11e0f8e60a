"""A hub that asks for keys, without the app, under a clock that only a test moves."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.wiring.adapters import Overrides
from tests.builders import FakeClock
from tests.keys import make_keyed_settings


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def hub(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Hub]:
    async with open_hub(make_keyed_settings(tmp_path), Overrides(clock=clock), maintain=False) as opened:
        yield opened
