"""Large work on a data directory in a child process, so that no request waits for it."""

import asyncio
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, TypeAlias

import structlog

from knowhub.core.errors import Unavailable
from knowhub.stores.files.filesystem import FileSystem

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
    command = (sys.executable, "-m", "knowhub.stores.files.subprocess_runner", name, str(root), str(os.getpid()))
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603 -- our own module


def run_in_process(files: FileSystem) -> SubprocessRunner:
    """Return what runs the work in this process, on another file system than the real one."""

    async def run(name: str, root: Path, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return find_work(name)(files, root, arguments)

    return run


Work: TypeAlias = Callable[[FileSystem, Path, Mapping[str, Any]], dict[str, Any]]
"""From a file system, a data directory and JSON arguments to a JSON result; it raises OSError."""

_WORK: Final = {
    "write_maps": "knowhub.stores.files.projections.json_maps:write_maps",
    "write_base": "knowhub.stores.files.compaction:write_base",
    "write_snapshot": "knowhub.stores.files.snapshots.archive:write_snapshot",
    "prepare_restore": "knowhub.stores.files.snapshots.restore:prepare_restore",
}
_NICENESS: Final = 10
_PR_SET_PDEATHSIG: Final = 1


def find_work(name: str) -> Work:
    """Return the function that does the work of a name."""
    work: Work = resolve_name(_WORK[name])
    return work


def main() -> None:
    """Do the work that the command line names, with the arguments of standard input."""
    name, root, parent = sys.argv[1:]
    _end_with(int(parent))
    os.nice(_NICENESS)
    # It makes millions of objects, and ends before any of them could be collected.
    gc.disable()
    try:
        answer = find_work(name)(FileSystem(), Path(root), json.loads(sys.stdin.buffer.read()))
    except OSError as problem:
        answer = {"errno": problem.errno or 0, "error": str(problem)}
    sys.stdout.write(json.dumps(answer))


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, also when both are stopped.

    A child that outlives its parent could write again what is erased meanwhile.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before the kernel knew.
        sys.exit("the process that asked for this has ended")


if __name__ == "__main__":
    main()
