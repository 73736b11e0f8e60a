"""Names that try to lead out of the folder of memories: none of them does, whoever reads the path in whatever way."""

import random
import unicodedata
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pytest

from knowhub.context import uri as uris
from knowhub.context.directories import directory_path
from knowhub.context.model import MemoryCategory
from tests.unit.resources.test_hostile_resource_ids import READINGS, hostile_ids

ROOT = Path("/srv/hub/context")
FEW, MANY = 4_000, 1_000_000
_MAX_NAME_BYTES, _MAX_PATH_BYTES = 255, 1_024


def hostile_uris(count: int) -> Iterator[str]:
    """Yield URIs with a hostile name in one segment, encoded or raw."""
    drawn = random.Random(7)
    for name in hostile_ids(count):
        try:
            written = uris.encode_segment(name) if drawn.random() < 0.7 else name
        except ValueError:
            written = name
        account, user, last = "default", "li", "a"
        match drawn.randint(0, 2):
            case 0:
                account = written
            case 1:
                user = written
            case _:
                last = written
        kind = drawn.choice(["memories/events", "sessions", "memories/entities"])
        yield f"ctx://{account}/users/{user}/{kind}/{last}"


def is_escape(path: str) -> bool:
    """Return whether a path, decoded in any way, leaves the folder of memories."""
    for reading in READINGS.values():
        read = reading(path)
        if not read.startswith(f"{ROOT}/") or "\0" in read or ".." in PurePosixPath(read).parts:
            return True
    return False


def resolve_naively(uri: str) -> str:
    """Map a URI to a path without any check."""
    return f"{ROOT}/{unquote(uri.removeprefix('ctx://'), errors='replace')}"


def check_uris(count: int) -> int:
    """Fail where a URI leads anywhere but down; return how many would have with a resolver that trusts them."""
    trusting = 0
    for uri in hostile_uris(count):
        path = ROOT / directory_path(uri)
        assert not is_escape(str(path)), uri
        assert all(len(name.encode()) <= _MAX_NAME_BYTES for name in path.parts), uri
        assert len(str(path).encode()) <= _MAX_PATH_BYTES or uri.count("/") > 9, uri
        trusting += is_escape(resolve_naively(uri))
    return trusting


def test_hostile_names_never_escape_the_folder() -> None:
    assert check_uris(FEW) > FEW // 20


@pytest.mark.nightly
def test_a_million_hostile_names_never_escape_the_folder() -> None:
    assert check_uris(MANY) > MANY // 20


def test_names_equal_to_a_file_system_have_different_paths() -> None:
    alike = ["Login", "login", "LOGIN", "ｌｏｇｉｎ", "login ", "login.", "é", "e\u0301", "É", "Å", "\u212b", "A\u030a"]

    paths = [str(directory_path(uris.node_uri("a", "users/li", MemoryCategory.EVENTS, name))) for name in alike]

    assert len({unicodedata.normalize("NFKD", path).casefold() for path in paths}) == len(alike)  # noqa: TID251 -- the text of this test


def test_names_equal_to_layout_folders_do_not_collide_with_them() -> None:
    words = ["users", "agents", "memories", "sessions", "profile", "events", "checkpoint.json"]

    for word in words:
        own = Path(directory_path(uris.node_uri(word, f"users/{word}", MemoryCategory.EVENTS, word)))

        assert own.parts[1::2] == ("users", "memories", own.parts[5])
        assert not {own.parts[0], own.parts[2], own.parts[5]} & set(words)


def test_the_longest_names_have_short_paths() -> None:
    longest = "密" * 90
    address = uris.node_uri(longest, f"users/{uris.encode_segment(longest)}", MemoryCategory.EVENTS, "文" * 900)

    path = directory_path(address)

    assert len(path.encode()) < 600


@pytest.mark.parametrize("space", ["users/li", "agents/bot"])
def test_no_memory_directory_is_inside_another(space: str) -> None:
    kinds = ("sessions",) if space.startswith("users") else ("skills", "tools")
    addresses = [f"ctx://a/{space}/{kind}/x" for kind in (*kinds, "memories/events", "memories/cases")]
    paths = [directory_path(address) for address in (*addresses, f"ctx://a/{space}/memories/profile")]

    assert not [(path, other) for path in paths for other in paths if other.startswith(f"{path}/")]
