"""Exports that are disabled in the settings: nothing is written, and old files are removed."""

from pathlib import Path

import pytest

from knowhub.bootstrap import Hub, check_directory, open_hub
from knowhub.context.commit_model import SessionCommit
from knowhub.conversations.messages import Message
from knowhub.keywords.model import NewKeyword
from knowhub.settings import Settings
from knowhub.wiring.adapters import Overrides
from tests.builders import OWNER, local, new_knowledge
from tests.fakes.plain_text import PlainText
from tests.hubs import save_record

pytestmark = pytest.mark.anyio


def make_settings(folder: Path, *, is_on: bool) -> Settings:
    return Settings(data_dir=folder, owner=OWNER, maps_interval_s=0, record_files=is_on, context_directories=is_on)


async def fill(hub: Hub, session: str) -> None:
    await save_record(hub, new_knowledge(f"zebra {session}"))
    await hub.keywords.tree.create(local(), NewKeyword(f"Python {session}"), auto_place=False)
    said = [Message("user", "I prefer tea.", "", "m1")]
    committed = await hub.memories.commits.commit(local(), SessionCommit(session, said))
    assert list(committed.degraded) == []


def exports_in(folder: Path) -> set[str]:
    patterns = ("records/**/*.jsonl", "indexes/*.json", "context/**/content.md")
    return {pattern for pattern in patterns if any(folder.glob(pattern))}


async def test_disabled_exports_are_removed_and_written_again_when_enabled(tmp_path: Path) -> None:
    found = []
    for number, is_on in enumerate((True, False, True)):
        settings = make_settings(tmp_path, is_on=is_on)
        async with open_hub(settings, Overrides(text=PlainText()), maintain=False) as hub:
            await fill(hub, f"s{number}")
            await hub.maintenance.tick()
            assert hub.maintenance.failures == {}
            assert [part.lag for part in (hub.exports.records, hub.exports.maps, hub.exports.directories)] == [0] * 3
            found.append(exports_in(tmp_path))
        assert [finding for finding in check_directory(settings) if finding.severity == "problem"] == []

    assert [len(exports) for exports in found] == [3, 0, 3]


async def test_doctor_notes_leftovers_of_disabled_exports(tmp_path: Path) -> None:
    async with open_hub(make_settings(tmp_path, is_on=True), Overrides(text=PlainText()), maintain=False) as hub:
        await fill(hub, "s")
    left = {
        finding.subject
        for finding in check_directory(make_settings(tmp_path, is_on=False))
        if "does not fit" in finding.detail
    }
    async with open_hub(make_settings(tmp_path, is_on=False), Overrides(text=PlainText()), maintain=False) as hub:
        await hub.reindex(lambda _done, _total: None)

    subjects = {finding.subject for finding in check_directory(make_settings(tmp_path, is_on=False))}

    assert left == {"records", "maps", "context"}
    assert not subjects & left
