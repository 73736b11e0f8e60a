"""The app on a hub that asks for keys, whose upkeep runs only when a test says so."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.builders import FakeClock
from tests.keys import make_keyed_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return make_keyed_settings(tmp_path / "data")


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock for the file whose `world` has it; the others' hubs have the real one."""
    return FakeClock()


@pytest.fixture
async def hub(settings: Settings, world: Overrides) -> AsyncIterator[Hub]:
    async with open_hub(settings, world, maintain=False) as opened:
        yield opened
