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
    """Return a clock for files whose `overrides` use it; other hubs have the real clock."""
    return FakeClock()


@pytest.fixture
async def hub(settings: Settings, overrides: Overrides) -> AsyncIterator[Hub]:
    async with open_hub(settings, overrides, maintain=False) as opened:
        yield opened
