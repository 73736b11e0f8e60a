"""The records that an index gets of a node: their ids are the same in every process and other at another place."""

from knowhub.context import uri
from knowhub.context.index.index_projector import IndexProjector
from knowhub.context.index_model import MoveProjection
from knowhub.context.model import Category, ContextNode, RelationEdge
from tests.context_rows import SPACE, memory_at

HERE = memory_at(Category.EVENTS, "trip")
THERE = memory_at(Category.EVENTS, "journey")
PROJECTOR = IndexProjector()


def node(address: str = HERE, overview: str = "three days", content: str = "We went to Rome.") -> ContextNode:
    return ContextNode(address, uri.parent_of(address), "memory", "events", SPACE, "a trip", overview, content)


def test_a_node_has_one_record_for_each_layer_with_an_id_of_uri_and_level() -> None:
    records = PROJECTOR.build_context_records(node())

    assert [(one.level, one.text) for one in records] == [(0, "a trip"), (1, "three days"), (2, "We went to Rome.")]
    assert [one.id for one in records] == [uri.stable_hash(HERE, level) for level in range(3)]
    assert records[0].filters == {"category": "events", "context_type": "memory", "owner_space": SPACE}


def test_a_layer_without_text_has_no_record_and_what_is_searched_may_be_more_than_the_abstract() -> None:
    records = PROJECTOR.build_context_records(node(overview="", content=""), "anna: a trip")

    assert [(one.level, one.text) for one in records] == [(0, "anna: a trip")]


def test_the_id_of_a_record_is_known_outside_of_this_process() -> None:
    assert uri.stable_hash("ctx://default", 0) == "77082310d63ec549eaf80f9929b6a7ef"


def test_a_node_that_has_moved_has_other_ids() -> None:
    here = {one.id for one in PROJECTOR.build_context_records(node())}
    there = {one.id for one in PROJECTOR.build_context_records(node(THERE))}

    assert here.isdisjoint(there)
    assert PROJECTOR.build_move_records(HERE, THERE) == MoveProjection(
        HERE, THERE, uri.parent_of(HERE), uri.parent_of(THERE)
    )


def test_edges_are_of_their_own_node_and_each_is_one_record_however_often_it_is_told() -> None:
    edges = [
        RelationEdge(HERE, THERE, "related", "first", 0.5),
        RelationEdge(HERE, THERE, "related", "second", 0.7),
        RelationEdge(HERE, THERE, "cause"),
        RelationEdge(THERE, HERE, "related"),
    ]

    records = PROJECTOR.build_relation_records(HERE, edges)

    assert [(one.relation_type, one.metadata["reason"]) for one in records] == [("related", "second"), ("cause", "")]
    assert len({one.id for one in records}) == 2
