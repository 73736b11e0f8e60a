"""Reading a URI layer by layer, and what a caller may see of it."""

from pathlib import Path

import pytest

from knowhub.context.model import Level, MemoryCategory
from knowhub.core.errors import NotFound
from tests.builders import caller
from tests.context_rows import memory_at, node_row, session_at
from tests.searched_memories import memories_in

pytestmark = pytest.mark.anyio

SESSION = session_at()
CASE = memory_at(MemoryCategory.EVENTS, "move")
WANG = caller(user_id="wang")


def edge(to_uri: str, weight: float) -> dict[str, object]:
    return {"to_uri": to_uri, "relation_type": "about", "reason": "", "weight": weight}


async def test_only_the_last_level_returns_a_long_message_in_full(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        short, long = "b" * 2_000, "c" * 2_001
        await memories.talk(SESSION, [{"content": short}, {"content": long}])

        first, second = [memories.read(f"{SESSION}/m{at}") for at in (0, 1)]
        whole = memories.read(f"{SESSION}/m1", Level.L2)

        assert (first.overview, second.overview) == (short, "c" * 1_999 + "…")
        assert (whole.overview, whole.content) == (second.overview, long)


async def test_relations_are_returned_on_request_strongest_first_if_visible(tmp_path: Path) -> None:
    near, far = memory_at(MemoryCategory.ENTITIES, "near"), memory_at(MemoryCategory.ENTITIES, "far")
    gone, theirs = (
        memory_at(MemoryCategory.ENTITIES, "gone"),
        memory_at(MemoryCategory.ENTITIES, "x", space="users/wang"),
    )

    async with memories_in(tmp_path) as memories:
        targets = [node_row(near), node_row(far), node_row(gone, deleted=True), node_row(theirs, owner="user:wang")]
        edges = [edge(far, 0.2), edge(gone, 0.9), edge(theirs, 0.8), edge(near, 0.7), edge("ctx://default/users/no", 1)]
        await memories.put(*targets, node_row(CASE, relations=edges))

        plain = memories.read(CASE)
        every = memories.read(CASE, expand_relations=True)
        node = memories.read(CASE, expand_relations=True, max_relations=1)

        assert list(plain.relations) == []
        assert [relation.to_uri for relation in every.relations] == [near, far]
        assert [relation.to_uri for relation in node.relations] == [near]


async def test_reading_a_folder_fails_alike_whether_it_is_empty_or_not(tmp_path: Path) -> None:
    async with memories_in(tmp_path) as memories:
        await memories.put(node_row(CASE))
        details = set()
        for address in ("ctx://default/users/li/memories", "ctx://default/users/nobody", "ctx://default"):
            with pytest.raises(NotFound, match="it is a folder") as refused:
                memories.read(address, ctx=WANG)
            details.add(refused.value.detail.replace(f"{address!r}", "URI"))

        assert len(details) == 1
