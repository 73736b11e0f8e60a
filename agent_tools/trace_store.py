"""Store the goals of runs: one durable file for each trace."""

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Protocol
from urllib.parse import quote

from agent_tools.goal_tree import GoalTree

_LONGEST_NAME_BYTES = 200


class TraceDamaged(Exception):
    """A saved tree cannot be read. The message names its file."""


class TraceStore(Protocol):
    """Stores the goals of each trace."""

    async def update_goal_tree(self, trace_id: str, tree: GoalTree) -> None:
        """Save the present tree. Raises OSError."""

    async def load_goal_tree(self, trace_id: str) -> GoalTree | None:
        """Return the saved tree, or None for an unknown trace. Raises OSError, TraceDamaged."""


class FileTraceStore:
    """Stores trees as JSON files in a directory. A crash leaves the last saved tree, or the one before it."""

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory)
        # One thread: trees are written in the order of the calls.
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trace-store")

    async def update_goal_tree(self, trace_id: str, tree: GoalTree) -> None:
        """Save the present tree. Raises OSError, and ValueError for a value that JSON does not have."""
        # Format it now: the tree may change while the disk is slow.
        text = json.dumps({"trace_id": trace_id, **tree.to_dict()}, ensure_ascii=False, allow_nan=False)
        loop = asyncio.get_running_loop()
        # This error handler writes a lone surrogate as JSON does.
        content = text.encode("utf-8", "backslashreplace")
        await loop.run_in_executor(self._writer, _replace, self._path(trace_id), content)

    async def load_goal_tree(self, trace_id: str) -> GoalTree | None:
        """Return the saved tree, or None for an unknown trace. Raises OSError, TraceDamaged."""
        path = self._path(trace_id)
        try:
            content = await asyncio.get_running_loop().run_in_executor(self._writer, path.read_bytes)
        except FileNotFoundError:
            return None
        try:
            return GoalTree.from_dict(json.loads(content))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise TraceDamaged(f"{path} holds no goal tree ({error}); move it away to start again") from error

    def _path(self, trace_id: str) -> Path:
        # Each id is a file name in this folder: slashes and dots cannot lead out of it.
        name = quote(trace_id, safe="", errors="surrogatepass").replace(".", "%2E")
        if len(name) > _LONGEST_NAME_BYTES:
            name = f"{name[:100]}-{sha256(name.encode()).hexdigest()}"
        return self._directory / f"{name}.json"


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A new name: another store, or a process of another container, may write beside it.
    with NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
        unfinished = Path(file.name)
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            unfinished.replace(path)
        except OSError:
            unfinished.unlink()
            raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # The new name must also survive a power cut.
        os.fsync(folder)
    finally:
        os.close(folder)
