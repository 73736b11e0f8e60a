"""Large work on a data directory in a child process, so that no request waits for it."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
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
    child = _start(name, root)
    # A thread of its own: such work takes minutes, and a few of them would fill the pool of the event loop.
    executor = ThreadPoolExecutor(1)
    done = asyncio.get_running_loop().run_in_executor(executor, child.communicate, json.dumps(arguments).encode())
    try:
        out, err = await asyncio.shield(done)
    except asyncio.CancelledError:
        child.kill()
        await asyncio.wait([done])
        raise
    finally:
        executor.shutdown(wait=False)
    if child.returncode:
        _log.error("work_failed", work=name, code=child.returncode, error=err.decode(errors="replace")[-4000:])
        raise Unavailable(f"{name} ended with {child.returncode}; the server's log says more")
    answer: dict[str, Any] = json.loads(out)
    if "errno" in answer:
        raise OSError(answer["errno"], answer["error"])
    return answer


def _start(name: str, root: Path) -> "subprocess.Popen[bytes]":
    # Not by the event loop: uvloop copies the page tables of the process first, 280 ms for 1.5 GB.
    command = (sys.executable, "-m", "knowhub.stores.files.subprocess_main", name, str(root), str(os.getpid()))
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603 -- our own module


def run_in_process(files: FileSystem) -> SubprocessRunner:
    """Return what runs the work in this process, on another file system than the real one."""

    async def run(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return find_work(name)(files, root, arguments)

    return run
