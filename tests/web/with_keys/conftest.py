"""The app on a hub that asks for keys, whose upkeep runs only when a test says so."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.settings import Settings
from knowhub.stores.files.filesystem import FileSystem
from knowhub.wiring.adapters import Overrides
from tests.builders import FakeClock
from tests.keys import make_keyed_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return make_keyed_settings(tmp_path / "data")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def overrides(clock: FakeClock) -> Overrides:
    return Overrides(clock=clock, files=FileSystem())


@pytest.fixture
async def hub(settings: Settings, overrides: Overrides) -> AsyncIterator[Hub]:
    async with open_hub(settings, overrides, maintain=False) as opened:
        yield opened
