"""How fast the directories of memories are written, next to the same files written by nothing but the file system.

Five rounds, in each of which both take turns ten times; the median of the rounds' ratios counts:
`python -m benchmarks.bench_context_nodes [NODES]`, with so many memories a commit, each with some messages.
Who is first behind a commit, whose sync leaves the disk busy, changes from turn to turn. Each fills one folder, and
both lie below the same: a disk puts what lies together into one region, and some regions are fuller than others.
"""

import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from knowhub.context.directories import CONTEXT_DIRECTORIES, directory_path
from knowhub.context.model import MemoryCategory
from knowhub.core.ids import RandomIds
from knowhub.core.operation import Operation
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.projections.directory_export import DirectoryExport
from knowhub.stores.files.store import FileStore, open_store
from knowhub.wiring.collections import COLLECTIONS
from tests.builders import FakeClock
from tests.context_rows import ACCOUNT, commit_rows, memory_at, node_row, part_rows, session_at

ROUNDS, TURNS = 5, 10
TARGET = 0.8
_MESSAGES = 20
_MODE = 0o640

_Files = Mapping[str, bytes]


async def one_round(root: Path, nodes: int) -> tuple[float, float]:
    """Return the seconds that the directories took, and those of the same files without them."""
    store = open_store(root / "data", FileSystem(), FakeClock(), RandomIds(), COLLECTIONS)
    folder = DataDirectory(root / "data").context
    directories = DirectoryExport(FileSystem(), folder, store, CONTEXT_DIRECTORIES)
    ours = theirs = 0.0
    folders: list[Path] = []
    # The first two turns warm up, and the very first shows what bare files are to hold.
    for turn in range(-3, TURNS):
        operation = await _committed(store, turn, nodes)
        files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
        folders = [root / "data" / "context" / directory_path(uri) for uri in _nodes_of(operation)]
        names = [folder.name for folder in folders[: len(files)]]
        bare = _bare(root / "data" / "bare", names, files) if turn % 2 else 0.0
        began = time.perf_counter()
        is_done = await directories.project(ACCOUNT, operation)
        seconds = time.perf_counter() - began
        if not is_done:
            sys.exit("the directories could not be written")
        bare = bare or _bare(root / "data" / "bare", names, files)
        if turn >= 0:
            ours += seconds
            theirs += bare
    await store.close()
    return ours, theirs


def _bare(root: Path, names: Sequence[str], nodes: Sequence[_Files]) -> float:
    """Write files as those of a turn ago: for each node a temporary directory, five files, a rename."""
    root.mkdir(parents=True, exist_ok=True)
    paths = [(str(root / f".{name}.tmp"), str(root / name)) for name in names]
    began = time.perf_counter()
    for (making, name), files in zip(paths, nodes, strict=True):
        os.mkdir(making, 0o750)  # noqa: PTH102 -- nothing between it and the system call
        for file, text in files.items():
            descriptor = os.open(f"{making}/{file}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
            os.write(descriptor, text)
            os.close(descriptor)
        os.rename(making, name)  # noqa: PTH104 -- as above
    return time.perf_counter() - began


async def _committed(store: FileStore, turn: int, nodes: int) -> Operation:
    session = session_at(f"s{turn}")
    texts = [f"Message {number}: I prefer tea to coffee, mostly. 我更喜欢茶。" for number in range(_MESSAGES)]
    memories = [
        node_row(
            memory_at(MemoryCategory.EVENTS, f"event {turn} {number}"),
            abstract=f"Event {number} of this session, in a sentence of about this length.",
            overview="An overview of some lines. " * 8,
            content="What happened, in more words than the overview has. " * 20,
            metadata={"by": "rules", "confidence": 0.8, "sessions": ["s1"], "message_ids": [f"m{number}"]},
            relations=[{"to_uri": session, "relation_type": "said_in", "reason": "", "weight": 1.0}],
        )
        for number in range(nodes)
    ]
    return await commit_rows(store, node_row(session, abstract="A session"), *part_rows(session, texts), *memories)


def _nodes_of(operation: Operation) -> list[str]:
    return [change.id for change in operation.changes if "parent_uri" in change.after]


async def main() -> None:
    """Print the medians, and end with 1 where the target is missed."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    ratios, costs = [], []
    for _ in range(ROUNDS):
        root = Path(tempfile.mkdtemp(prefix="bench-context-"))
        try:
            ours, theirs = await one_round(root, nodes)
        finally:
            shutil.rmtree(root)
        ratios.append(theirs / ours)
        costs.append((ours / TURNS / (nodes + 1) * 1e6, theirs / TURNS / (nodes + 1) * 1e6))
    ratio = statistics.median(ratios)
    projection, bare = (statistics.median(times) for times in zip(*costs, strict=True))
    print(f"directories a commit: {nodes + 1}, messages: {_MESSAGES}")
    print(f"projection: {projection:.0f} µs a directory, bare files: {bare:.0f} µs a directory")
    print(f"throughput: {ratio:.2f} of bare files ({', '.join(f'{item:.2f}' for item in ratios)}), target {TARGET}")
    if ratio < TARGET:
        sys.exit(1)


if __name__ == "__main__":
    asyncio.run(main())
