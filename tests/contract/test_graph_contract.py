"""What every store of edges does; the in-process one is the only one so far."""

from collections.abc import Callable

import pytest

from knowhub.context.model import RelationEdge
from knowhub.context.ports import GraphStore
from knowhub.providers.graph import InProcessGraph

pytestmark = pytest.mark.anyio

GRAPHS: list[Callable[[], GraphStore]] = [InProcessGraph]


@pytest.fixture(params=GRAPHS, ids=["in-process"])
def graph(request: pytest.FixtureRequest) -> GraphStore:
    made: GraphStore = request.param()
    return made


def edge(start: str, end: str, kind: str = "related", weight: float = 1.0) -> RelationEdge:
    return RelationEdge(start, end, kind, "said together", weight)


async def test_edges_are_neighbours_of_both_their_ends(graph: GraphStore) -> None:
    await graph.upsert_edges([edge("a", "b"), edge("c", "a")])

    of_a, of_b, of_x = await graph.neighbors("a"), await graph.neighbors("b"), await graph.neighbors("x")

    assert sorted((one.from_uri, one.to_uri) for one in of_a) == [("a", "b"), ("c", "a")]
    assert (list(of_b), list(of_x)) == ([edge("a", "b")], [])


async def test_an_edge_that_is_written_again_stays_one_and_bears_its_newest_weight(graph: GraphStore) -> None:
    await graph.upsert_edges([edge("a", "b", weight=0.2)])

    await graph.upsert_edges([edge("a", "b", weight=0.9)])

    assert list(await graph.neighbors("a")) == [edge("a", "b", weight=0.9)]


async def test_edges_of_other_types_are_left_out_and_not_walked(graph: GraphStore) -> None:
    await graph.upsert_edges([edge("a", "b", "cause"), edge("a", "c", "part"), edge("c", "d", "cause")])

    found = await graph.neighbors("a", ["cause"], depth=3)

    assert list(found) == [edge("a", "b", "cause")]


async def test_depth_counts_steps_and_a_circle_is_walked_once(graph: GraphStore) -> None:
    await graph.upsert_edges([edge("a", "b"), edge("b", "c"), edge("c", "d"), edge("d", "a")])

    by_depth = [len(await graph.neighbors("a", depth=depth)) for depth in (0, 1, 2, 9)]

    assert by_depth == [0, 2, 4, 4]


async def test_a_node_that_is_removed_takes_its_edges_along_and_no_others(graph: GraphStore) -> None:
    await graph.upsert_edges([edge("a", "b"), edge("b", "c"), edge("c", "d"), edge("b", "b")])

    await graph.remove_node("b")
    await graph.remove_node("never there")

    assert list(await graph.neighbors("c", depth=9)) == [edge("c", "d")]
    assert list(await graph.neighbors("a")) == list(await graph.neighbors("b")) == []
