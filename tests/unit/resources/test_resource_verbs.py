"""The verbs on resources: who may do what, and what a list shows."""

from functools import partial

import pytest

from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Draft, Write
from knowhub.core.owned_rows import SUMMARIES_A_TURN
from knowhub.engine.view import AccountView
from knowhub.resources.decisions import make_row
from knowhub.resources.model import RESOURCES, ResourceQuery
from knowhub.resources.service import ResourceService
from tests.builders import CountedIds, FakeClock, local
from tests.fakes.memory_store import MemoryStore
from tests.sealing import ID, memory_vault, new_resource
from tests.unit.resources.resource_bench import LI, WANG, ResourceBench

pytestmark = pytest.mark.anyio


async def test_metadata_and_expiry_say_the_same(bench: ResourceBench) -> None:
    facts = {"acquired_at": "2026-03-06", "expires_at": "2026-03-07T10:00:00+02:00"}
    saved = await bench.service.save(local(), new_resource(metadata=facts))
    assert saved.record["expires_at"] == "2026-03-07T08:00:00Z"
    assert saved.record["metadata"] == {"acquired_at": "2026-03-06", "expires_at": "2026-03-07T08:00:00Z"}

    later = await bench.service.patch(local(), ID, {"expires_at": "2027-01-01T00:00:00Z"})
    assert later.record["metadata"]["expires_at"] == "2027-01-01T00:00:00Z"

    without = await bench.service.patch(local(), ID, {"metadata": {}})
    assert without.record["expires_at"] is None

    given = await bench.service.patch(local(), ID, {"expires_at": "2028-01-01T00:00:00Z"})
    kept = await bench.service.patch(local(), ID, {"metadata": {"language": "python"}})
    assert given.record["metadata"] == {}
    assert kept.record["expires_at"] == "2028-01-01T00:00:00Z"

    with pytest.raises(InvalidInput, match="differs"):
        await bench.service.save(
            local(), new_resource("b", metadata={"expires_at": "2026-01-01"}, expires_at="2027-01-01T00:00:00Z")
        )
    for junk in ("soon", 5, ["2026-01-01"], "9999-99-99"):
        with pytest.raises(InvalidInput, match="ISO 8601"):
            await bench.service.save(local(), new_resource("b", metadata={"expires_at": junk}))


async def test_pages_list_visible_resources_by_id(bench: ResourceBench) -> None:
    for number in (7, 3, 9, 1, 5, 2, 8, 4, 6, 0):
        mine = ["user:wang"] if number % 2 else ["user:owner"]
        await bench.service.save(LI, new_resource(f"code/{number}", scopes=mine, content_type="code"))
    await bench.service.save(WANG, new_resource("codex"))
    await bench.service.save(WANG, new_resource("code/6z", content_type="code"))
    await bench.service.delete(WANG, "code/6z")
    await bench.service.save(WANG, new_resource("code/9z", content_type="text"))

    seen: list[str] = []
    after: str | None = None
    while True:
        page = await bench.service.list_page(
            WANG, ResourceQuery(prefix="code/", content_type="code", limit=2, after=after)
        )
        seen += [record["id"] for record in page.records]
        if page.next_after is None:
            break
        after = page.next_after

    assert seen == ["code/1", "code/3", "code/5", "code/7", "code/9"]


def decide_draft(draft: Draft, _view: AccountView) -> Draft:
    return draft


class TurningStore(MemoryStore):
    """A store that returns the views of other stores in turn; the last one repeats."""

    def __init__(self, *stores: MemoryStore) -> None:
        super().__init__(FakeClock(), CountedIds())
        self._stores = list(stores)

    def view(self, account: str) -> AccountView:
        return (self._stores.pop(0) if len(self._stores) > 1 else self._stores[0]).view(account)


async def test_a_row_hidden_while_listing_is_left_out(bench: ResourceBench) -> None:
    hidden = [new_resource(f"b/{number:04}", scopes=["user:owner"]) for number in range(SUMMARIES_A_TURN)]
    earlier, later = (MemoryStore(bench.clock, CountedIds()) for _ in range(2))
    for store, scopes in ((earlier, ["user:wang"]), (later, ["user:owner"])):
        rows = [new_resource("a", scopes=scopes), *hidden, *(new_resource(name, scopes=["user:wang"]) for name in "cd")]
        draft = Draft("save", [Write(RESOURCES, row.id, make_row(row, None, 0.0, LI, upsert=False)) for row in rows])
        await store.commit("default", "user:li", partial(decide_draft, draft))
    service = ResourceService(TurningStore(earlier, later), memory_vault(bench.keyring))

    page = await service.list_page(WANG, ResourceQuery(limit=2))

    assert ([row["id"] for row in page.records], page.next_after) == (["c", "d"], None)
