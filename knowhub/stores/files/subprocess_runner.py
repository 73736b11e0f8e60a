"""Large work on a data directory in a child process, so that no request waits for it."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import structlog

from knowhub.core.errors import Unavailable
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.subprocess_main import find_work

SubprocessRunner: TypeAlias = Callable[[str, Path, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Runs the work of a name on a data directory. Raises OSError as the work does, and Unavailable when it was ended."""

_log = structlog.get_logger("knowhub.subprocess")


async def run_in_subprocess(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run the work in a child process, which ends with the task that waits for it."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "knowhub.stores.files.subprocess_main", name, str(root), str(os.getpid())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await child.communicate(json.dumps(arguments).encode())
    except asyncio.CancelledError:
        child.kill()
        await child.wait()
        raise
    if child.returncode:
        _log.error("work_failed", work=name, code=child.returncode, error=err.decode(errors="replace")[-4000:])
        raise Unavailable(f"{name} ended with {child.returncode}; the server's log says more")
    answer: dict[str, Any] = json.loads(out)
    if "errno" in answer:
        raise OSError(answer["errno"], answer["error"])
    return answer


def run_in_process(files: FileSystem) -> SubprocessRunner:
    """Return what runs the work in this process, on another file system than the real one."""

    async def run(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return find_work(name)(files, root, arguments)

    return run
