"""What every projection guarantees: whatever happens to its files, it ends equal to the log, and a check reports."""

import asyncio
import errno
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, open_hub
from knowhub.context.commit_model import SessionCommit
from knowhub.context.queries import list_memories
from knowhub.conversations.messages import Message
from knowhub.core.errors import KnowHubError
from knowhub.core.projection import CheckResult
from knowhub.core.request_context import local_context
from knowhub.keywords.model import NewInfo, NewKeyword
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.knowledge.table import list_live_records
from knowhub.settings import Settings
from knowhub.stores.files.data_directory import DataDirectory
from knowhub.stores.files.doctor.log_contents import CheckedProjection
from knowhub.stores.files.filesystem import FileSystem
from knowhub.stores.files.subprocess_runner import run_in_process
from knowhub.wiring.adapters import Overrides
from knowhub.wiring.exports import build_exports
from tests.builders import OWNER, FakeClock, local, new_knowledge, open_files
from tests.fakes.faulty_files import CrashNow, FaultyFileSystem, Plan
from tests.fakes.plain_text import PlainText

pytestmark = pytest.mark.anyio

FOLDERS = {"records": "records", "maps": "indexes", "context": "context"}
CHECKPOINTS = {"records": "checkpoint.json", "maps": "derived.json", "context": "checkpoint.json"}
TEAM = local_context(OWNER, "team a")


class ProjectionBench:
    """A data directory, opened by a store alone, with one projection of it on a file system that may fail."""

    def __init__(self, name: str, folder: Path, files: FileSystem | None = None) -> None:
        self.store = open_files(folder)
        files = files or FileSystem()
        exports = build_exports(
            files, DataDirectory(folder), self.store, run_in_process(files), Settings(maps_interval_s=0)
        )
        jobs: Mapping[str, Sequence[Callable[[], Awaitable[None]]]] = {
            "records": [exports.records.catch_up],
            # They are made of the record files.
            "maps": [exports.records.catch_up, exports.maps.catch_up],
            "context": [exports.directories.catch_up],
        }
        checked: Mapping[str, CheckedProjection] = {
            "records": exports.records,
            "maps": exports.maps,
            "context": exports.directories,
        }
        self._jobs = jobs[name]
        self.checked = checked[name]

    async def catch_up(self) -> None:
        for job in self._jobs:
            await job()

    def check(self) -> CheckResult:
        return self.checked.check()


async def save_records(hub: Hub) -> None:
    await hub.knowledge.records.save(local(), new_knowledge("zebra 登录"))
    await hub.knowledge.records.save(TEAM, new_knowledge("a zebra of a team"))


async def patch_record(hub: Hub) -> None:
    summary = next(iter(list_live_records(hub.store.view("default"))))
    await hub.knowledge.records.patch(local(), summary.id, {"content": "lion"})


async def grow_a_tree(hub: Hub) -> None:
    made = await hub.keywords.tree.create_batch(local(), [NewKeyword("Python"), NewKeyword("Go"), NewKeyword("gone")])
    ids = [str(saved.record["id"]) for saved in made.records]
    await hub.keywords.infos.create(local(), NewInfo("both", keyword_ids=ids[:2]))
    await hub.keywords.tree.delete(local(), ids[2])


async def commit_a_session(hub: Hub) -> None:
    said = [Message("user", "I prefer green tea.", "", "m1"), Message("assistant", "Noted.", "", "m2")]
    await hub.memories.commits.commit(local(), SessionCommit("s1", said))


async def continue_session(hub: Hub) -> None:
    await hub.memories.commits.commit(local(), SessionCommit("s1", [Message("user", "And black coffee.", "", "m3")]))
    await hub.memories.commits.commit(TEAM, SessionCommit("s2", [Message("user", "I live in 杭州.", "", "m1")]))


async def delete_memory(hub: Hub) -> None:
    memories = [summary.uri for summary in list_memories(hub.store.view("default")) if not summary.is_part]
    await hub.memories.authoring.delete(local(), memories[-1])


async def compact(hub: Hub) -> None:
    await hub.compact(retention_days=0.0)


async def write_behind_the_base(hub: Hub) -> None:
    await save_records(hub)
    await hub.memories.commits.commit(local(), SessionCommit("s3", [Message("user", "I moved to Bern.", "", "m1")]))
    await hub.keywords.tree.create(local(), NewKeyword("Rust"), auto_place=False)


DEEDS = (
    save_records,
    patch_record,
    grow_a_tree,
    commit_a_session,
    continue_session,
    delete_memory,
    compact,
    write_behind_the_base,
)


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one data directory for each step: its state after that step."""
    root = tmp_path_factory.mktemp("histories")

    async def run() -> None:
        settings = Settings(data_dir=root / "live", owner=OWNER, maps_interval_s=0)
        clock = FakeClock()
        world = Overrides(text=PlainText(), clock=clock, files=FileSystem())
        async with open_hub(settings, world, maintain=False) as hub:
            for number, deed in enumerate(DEEDS):
                clock.advance(60)
                await deed(hub)
                await hub.maintenance.tick()
                assert hub.maintenance.failures == {}
                shutil.copytree(root / "live", root / str(number))

    asyncio.run(run())
    return root


def files_of(name: str, folder: Path) -> dict[str, bytes]:
    """Return every file of a projection but its metadata."""
    root = folder / FOLDERS[name]
    paths = [path for path in root.rglob("*") if path.is_file() and path.name != CHECKPOINTS[name]]
    if name == "maps":
        paths = [path for path in paths if path.suffix == ".json" and "lexical" not in path.parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


LAST, BEFORE_COMPACTION = len(DEEDS) - 1, DEEDS.index(compact) - 1


def log_of(histories: Path, folder: Path, *, derived_at: int | None = None, name: str = "", end: int = LAST) -> Path:
    """Make a data directory with the log after one step, and a projection after another."""
    shutil.copytree(histories / str(end), folder, ignore=shutil.ignore_patterns("records", "context"))
    shutil.rmtree(folder / "indexes")
    for part in () if derived_at is None else {FOLDERS[name], "records"}:
        source = histories / str(derived_at) / part
        if source.exists():
            shutil.copytree(source, folder / part)
    return folder


async def make_expected(name: str, histories: Path, folder: Path, end: int = LAST) -> dict[str, bytes]:
    bench = ProjectionBench(name, log_of(histories, folder, end=end))
    await bench.catch_up()
    assert bench.check().differences == []
    await bench.store.close()
    return files_of(name, folder)


@pytest.mark.parametrize("end", [BEFORE_COMPACTION, LAST])
@pytest.mark.parametrize("name", FOLDERS)
async def test_to_apply_from_any_position_equals_a_rebuild(
    histories: Path, tmp_path: Path, name: str, end: int
) -> None:
    expected = await make_expected(name, histories, tmp_path / "whole", end)
    assert len(expected) > 3

    for number in range(end + 1):
        folder = log_of(histories, tmp_path / str(number), derived_at=number, name=name, end=end)
        bench = ProjectionBench(name, folder)
        await bench.catch_up()
        result = bench.check()
        await bench.store.close()

        assert files_of(name, folder) == expected, DEEDS[number]
        assert (result.fits, result.differences, result.position) == (True, [], bench.store.last_seq)


async def try_catch_up(bench: ProjectionBench) -> bool:
    try:
        await bench.catch_up()
    except (CrashNow, OSError, KnowHubError):
        return False
    return True


@pytest.mark.parametrize("half_written", [False, True])
@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("start", [None, 4, pytest.param(0, marks=pytest.mark.nightly)])
async def test_a_death_at_any_call_is_made_good_by_the_next_leader(
    histories: Path, tmp_path: Path, name: str, start: int | None, *, half_written: bool
) -> None:
    expected = await make_expected(name, histories, tmp_path / "whole", BEFORE_COMPACTION)
    for number in range(1, 1_000, 7 if start is None else 3):
        folder = log_of(histories, tmp_path / "crash", derived_at=start, name=name, end=BEFORE_COMPACTION)
        files = FaultyFileSystem()
        bench = ProjectionBench(name, folder, files)
        files.begin(Plan(crash_at=number, half_written=half_written))
        is_done = await try_catch_up(bench)
        files.bury()
        await bench.store.close()

        again = ProjectionBench(name, folder)
        await again.catch_up()
        assert again.check().differences == []
        await again.store.close()
        assert files_of(name, folder) == expected, number
        shutil.rmtree(folder)
        if is_done:
            assert number > 1
            return
    pytest.fail("it made no end")


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("name", FOLDERS)
async def test_a_disk_that_refuses_any_call_costs_one_more_try(
    histories: Path, tmp_path: Path, name: str, error: int
) -> None:
    expected = await make_expected(name, histories, tmp_path / "whole")
    for number in range(1, 1_000, 7):
        folder = log_of(histories, tmp_path / "fault")
        files = FaultyFileSystem()
        bench = ProjectionBench(name, folder, files)
        files.begin(Plan(fail_at=number, error=error))
        was_refused = not await try_catch_up(bench)
        await bench.catch_up()
        await bench.store.close()

        assert files_of(name, folder) == expected, number
        shutil.rmtree(folder)
        if not was_refused:
            return
    pytest.fail("it made no end")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("spoil", [cut, flip, remove])
@pytest.mark.parametrize("name", FOLDERS)
async def test_a_check_names_altered_files_and_a_rebuild_repairs_them(
    histories: Path, tmp_path: Path, name: str, spoil: Callable[[Path], None]
) -> None:
    expected = await make_expected(name, histories, tmp_path / "data")
    for path in sorted(expected):
        if not expected[path]:
            continue
        place = tmp_path / "data" / FOLDERS[name] / path
        spoil(place)
        bench = ProjectionBench(name, tmp_path / "data")

        found = bench.check()

        where = str(Path(FOLDERS[name], path))
        assert not found.fits or [difference for difference in found.differences if where.startswith(difference)], path
        bench.checked.discard()
        await bench.catch_up()
        await bench.store.close()
        assert files_of(name, tmp_path / "data") == expected


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("spoil", [cut, flip, remove])
async def test_damaged_metadata_costs_a_rebuild(
    histories: Path, tmp_path: Path, name: str, spoil: Callable[[Path], None]
) -> None:
    expected = await make_expected(name, histories, tmp_path / "data")
    spoil(tmp_path / "data" / FOLDERS[name] / CHECKPOINTS[name])

    bench = ProjectionBench(name, tmp_path / "data")
    before = bench.check()
    await bench.catch_up()
    await bench.store.close()

    assert not before.fits
    assert files_of(name, tmp_path / "data") == expected


@pytest.mark.parametrize("name", FOLDERS)
async def test_files_of_another_log_are_built_again(histories: Path, tmp_path: Path, name: str) -> None:
    expected = await make_expected(name, histories, tmp_path / "whole")
    other = tmp_path / "other"
    store = open_files(other)
    await store.close()
    bench = ProjectionBench(name, log_of(histories, tmp_path / "data", derived_at=2, name=name))
    await bench.store.close()
    shutil.rmtree(other / "change_log")
    (other / "LOCK").unlink()
    for part in ("records", "indexes", "context"):
        if (tmp_path / "data" / part).exists():
            shutil.copytree(tmp_path / "data" / part, other / part)
    shutil.rmtree(other / "records", ignore_errors=True)

    strange = ProjectionBench(name, other)
    await strange.catch_up()
    await strange.store.close()

    assert files_of(name, other) == {}
    assert expected


@pytest.mark.parametrize("name", ["records", "context"])
async def test_files_of_another_boot_may_be_torn_and_are_built_again(
    histories: Path, tmp_path: Path, name: str
) -> None:
    expected = await make_expected(name, histories, tmp_path / "data")
    for path in files_of(name, tmp_path / "data"):
        torn = tmp_path / "data" / FOLDERS[name] / path
        torn.write_bytes(bytes(torn.stat().st_size))

    bench = ProjectionBench(name, tmp_path / "data", RebootedSystem())
    await bench.catch_up()
    await bench.store.close()

    assert files_of(name, tmp_path / "data") == expected


class RebootedSystem(FileSystem):
    """A system with a boot id that differs from the writer's."""

    def read(self, path: Path) -> bytes:
        if path.name == "boot_id":
            return b"00000000-0000-0000-0000-000000000001\n"
        return super().read(path)


@pytest.mark.parametrize("name", FOLDERS)
async def test_an_erased_row_is_in_no_projection(histories: Path, tmp_path: Path, name: str) -> None:
    folder = log_of(histories, tmp_path / "data")
    settings = Settings(data_dir=folder, owner=OWNER, maps_interval_s=0)
    async with open_hub(settings, Overrides(text=PlainText(), files=FileSystem()), maintain=False) as hub:
        await hub.maintenance.tick()
        summary = next(iter(list_live_records(hub.store.view("default"))))

        done = await hub.operations.erasure.erase(local(), KNOWLEDGE, summary.id)

        assert list(done.pending) == []
    bench = ProjectionBench(name, folder)
    assert bench.check().differences == []
    await bench.store.close()
