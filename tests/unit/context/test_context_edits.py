"""Reading, correcting and forgetting one memory, and listing the nodes below a URI."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from knowhub.context import edits, service
from knowhub.context.commit.parts import SUMMARISED_MESSAGES
from knowhub.context.commit.session_node import remove_message
from knowhub.context.model import MemoryCategory
from knowhub.context.queries import list_parts
from knowhub.core.errors import Forbidden, VersionConflict
from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext, Role
from knowhub.stores.files.store import FileStore
from tests.builders import caller, local, open_files
from tests.context_rows import draft, memory_at, node_row, part_rows, session_at

pytestmark = pytest.mark.anyio

LI = caller(user_id="li")
SESSION = session_at("monday")
STYLE = memory_at(MemoryCategory.PREFERENCES, "style")
OTHERS = memory_at(MemoryCategory.PREFERENCES, "style", space="users/wang")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    store = open_files(tmp_path)
    rows = [
        node_row(SESSION, abstract="Monday"),
        *part_rows(SESSION, ["first", "second", "third"]),
        node_row(STYLE, abstract="short answers", overview="Li wants short answers", content="- short"),
        node_row(OTHERS, owner="user:wang"),
    ]
    await store.commit("default", "user:li", lambda _view: draft(*rows))
    yield store
    await store.close()


@pytest.fixture
def view(store: FileStore) -> View:
    return store.view("default")


def uris(found: service.Listing) -> list[str]:
    return [child.uri.removeprefix("ctx://default") for child in found.children]


async def test_only_the_owner_edits_and_only_the_current_version(view: View) -> None:
    reader = RequestContext("default", "user:li", frozenset({"user:li"}), LI.visible, "user:li", role=Role.READER)

    with pytest.raises(Forbidden):
        edits.get_editable_summary(view, reader, STYLE, None)
    with pytest.raises(VersionConflict):
        edits.get_editable_summary(view, LI, STYLE, 2)
    assert edits.get_editable_summary(view, LI, STYLE, 1).uri == STYLE
    assert edits.get_editable_summary(view, local(), OTHERS, None).uri == OTHERS


@pytest.mark.parametrize(
    ("ctx", "address", "depth", "expected"),
    [
        (LI, None, 1, ["/users"]),
        (LI, "ctx://default/users", 1, ["/users/li"]),
        (local(), "ctx://default/users", 1, ["/users/li", "/users/wang"]),
        (LI, SESSION, 1, [f"/users/li/sessions/monday/m{number}" for number in range(3)]),
        (caller(user_id="nobody"), None, 3, []),
    ],
)
async def test_a_listing_has_the_asked_depth_and_only_visible_nodes(
    view: View, ctx: RequestContext, address: str | None, depth: int, expected: list[str]
) -> None:
    assert uris(service.children_of(view, ctx, address, depth)) == expected


async def test_a_long_session_is_summarised_again_from_its_newest_messages(tmp_path: Path) -> None:
    store = open_files(tmp_path / "long")
    texts = [f"message {number} is about bread" for number in range(SUMMARISED_MESSAGES + 3)]
    rows = [node_row(SESSION), *part_rows(SESSION, texts)]
    await store.commit("default", "user:li", lambda _view: draft(*rows))
    view = store.view("default")
    first = list_parts(view, SESSION)[0]

    (write,) = remove_message(view, first, str)
    await store.close()

    assert write.after["metadata"]["message_count"] == SUMMARISED_MESSAGES + 2
    assert write.after["overview"].startswith(f"{SUMMARISED_MESSAGES} messages")
