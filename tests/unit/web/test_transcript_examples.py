"""The example transcripts match their README: sessions of thirty messages that can be committed."""

import re
from pathlib import Path

import orjson
import pytest

from knowhub.web.schemas.context import CommitBody

EXAMPLES = Path(__file__).resolve().parents[3] / "examples/transcripts"
CHINESE = re.compile("[\u4e00-\u9fff]")


@pytest.mark.parametrize(("name", "is_chinese"), [("order-export.en.json", False), ("website-login.zh.json", True)])
def test_example_transcripts_are_valid_request_bodies(name: str, is_chinese: bool) -> None:
    sent = CommitBody.model_validate(orjson.loads((EXAMPLES / name).read_bytes()))

    commit = sent.to_commit()
    ids = [message.message_id for message in commit.messages]
    times = [message.timestamp or "" for message in commit.messages]
    assert len(commit.messages) == len(set(ids)) == 30
    assert None not in ids
    assert times == sorted(times)
    assert "" not in times
    assert {message.role for message in commit.messages} == {"user", "assistant", "tool"}
    assert {tool.ok for tool in commit.used_tools} == {True, False}
    spoken = [message.content for message in commit.messages if message.role != "tool"]
    assert all(bool(CHINESE.search(text)) is is_chinese for text in spoken)


def test_every_example_file_is_tested() -> None:
    assert sorted(path.name for path in EXAMPLES.iterdir()) == ["order-export.en.json", "website-login.zh.json"]
