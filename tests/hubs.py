"""An open hub whose upkeep runs only when the test says so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from knowhub.bootstrap import Hub, open_hub
from knowhub.knowledge.model import NewKnowledge
from knowhub.settings import Settings
from tests.builders import OWNER, local


@asynccontextmanager
async def hub_on(folder: Path, index_batch: int = 1000) -> AsyncIterator[Hub]:
    """Open a hub whose upkeep runs only when the test says so, and once at its end."""
    async with open_hub(Settings(data_dir=folder, owner=OWNER, index_batch=index_batch), keep=False) as hub:
        yield hub


async def saved(hub: Hub, new: NewKnowledge) -> str:
    """Save a record and return its id."""
    return str((await hub.knowledge.save(local(), new)).record["id"])
