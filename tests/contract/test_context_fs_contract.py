"""What the directories of nodes promise, function by function (seed 002 §10.2 and §10.3, CE-117…132)."""

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from knowhub.context import uri as uris
from knowhub.context.model import Category, ContextNode, Level, MemoryContext, RelationEdge
from knowhub.core.errors import Conflict, Forbidden, InvalidInput, NotFound, Unavailable
from knowhub.stores.files.directories.context_fs import ContextFS
from knowhub.stores.files.directories.context_lock import held
from knowhub.stores.files.directories.context_relations import RelationStore
from knowhub.stores.files.directories.node_encoding import Standing, encoded
from knowhub.stores.files.directories.node_files import META, NODE_FILES, NodeFiles
from knowhub.stores.files.filesystem import FilePath, RealFileSystem
from tests.context_rows import memory_at, session_at

WHOSE = MemoryContext("default", "li", "~li", "user:li", "user:li")
EVENT = memory_at(Category.EVENTS, "moved house")
PROFILE = memory_at(Category.PROFILE)
LI = "ctx://default/users/li"


def node(address: str = EVENT, **fields: Any) -> ContextNode:  # noqa: ANN401 -- any field
    parsed = uris.parse(address)
    made = ContextNode(
        uri=address,
        parent_uri=parsed.parent,
        context_type="memory",
        category=str(parsed.category),
        owner_space=parsed.space,
        abstract="Moved house",
        overview="Moved to Ghent\n",
        content="On Monday. 搬家了。",
        metadata={"said_at": "2026-03-05", "sessions": ["s1"]},
        relations=[RelationEdge(address, PROFILE, "about", "it is theirs", 0.5)],
        version=3,
        created_at="2026-03-05T12:00:00Z",
        updated_at="2026-03-06T12:00:00Z",
    )
    return replace(made, **fields)


@pytest.fixture
def nodes(tmp_path: Path) -> ContextFS:
    return ContextFS(RealFileSystem(), tmp_path / "context")


def test_a_node_reads_back_as_it_was_written(nodes: ContextFS) -> None:
    nodes.write_node(WHOSE, node())

    assert nodes.read_node(WHOSE, EVENT) == node()
    assert nodes.read_node(WHOSE, EVENT, include_content=False) == node(content="")


def test_a_node_is_a_directory_of_five_files(nodes: ContextFS) -> None:
    nodes.write_node(WHOSE, node())

    folder = Path(nodes.resolve_path(WHOSE, EVENT))
    assert {path.name for path in folder.iterdir()} == NODE_FILES
    assert orjson.loads((folder / ".meta.json").read_bytes())["uri"] == EVENT
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_path_shows_what_can_be_read_of_a_name_and_never_the_name(nodes: ContextFS) -> None:
    path = Path(nodes.resolve_path(WHOSE, memory_at(Category.ENTITIES, "登录 page/..")))

    assert path.parts[-4:-1] == (path.parts[-4], "memories", "entities")
    assert path.name.startswith("登录-page")
    assert "/.." not in str(path)


def test_what_is_written_again_keeps_nothing_of_before(nodes: ContextFS) -> None:
    nodes.write_node(WHOSE, node())

    nodes.write_node(WHOSE, node(content="", relations=[], metadata={}, version=4))

    assert nodes.read_node(WHOSE, EVENT) == node(content="", relations=[], metadata={}, version=4)


def test_what_is_not_there_is_not_found(nodes: ContextFS) -> None:
    reads: list[Callable[[], object]] = [
        lambda: nodes.read_node(WHOSE, EVENT),
        lambda: nodes.read_level(WHOSE, EVENT, Level.L0),
        lambda: nodes.read_metadata(WHOSE, EVENT),
        lambda: nodes.write_level(WHOSE, EVENT, Level.L0, "x"),
        lambda: nodes.write_metadata(WHOSE, EVENT, {}),
        lambda: nodes.delete_node(WHOSE, EVENT),
        lambda: nodes.move_node(WHOSE, EVENT, memory_at(Category.EVENTS, "other")),
        lambda: nodes.read_node(WHOSE, LI),
        lambda: nodes.read_node(WHOSE, f"{session_at()}/m1"),
    ]

    for read in reads:
        with pytest.raises(NotFound):
            read()
    assert not nodes.exists(WHOSE, EVENT)
    assert not nodes.stat_node(WHOSE, EVENT).exists
    assert nodes.list_children(WHOSE, LI) == []


def test_a_uri_of_another_account_or_one_that_is_malformed_is_refused(nodes: ContextFS) -> None:
    for hostile, problem in (
        (EVENT.replace("default", "other"), Forbidden),
        ("ctx://default/users/../agents/x/skills/y", InvalidInput),
        ("ctx://default/users/%2e%2e/memories/profile", InvalidInput),
        ("/etc/passwd", InvalidInput),
    ):
        for call in (nodes.resolve_path, nodes.exists, nodes.read_node, nodes.stat_node, nodes.list_children):
            with pytest.raises(problem):
                call(WHOSE, hostile)
    for place in (LI, f"{LI}/memories/events", f"{session_at()}/m1"):
        with pytest.raises(InvalidInput):
            nodes.write_node(WHOSE, node(uri=place))


def test_a_node_is_known_by_version_size_and_time_without_being_read(nodes: ContextFS) -> None:
    nodes.write_node(WHOSE, node())

    stat = nodes.stat_node(WHOSE, EVENT)

    folder = Path(nodes.resolve_path(WHOSE, EVENT))
    assert (stat.exists, stat.version, stat.updated_at) == (True, 3, "2026-03-06T12:00:00Z")
    assert stat.size == sum(path.stat().st_size for path in folder.iterdir())


class DeletedWhenNoted(RealFileSystem):
    """Somebody deletes a node when its note has been read, and before anything else of it is looked at."""

    def look(self, path: FilePath) -> os.stat_result | None:
        if str(path).endswith(META):
            shutil.rmtree(Path(path).parent)
        return super().look(path)


def test_a_node_that_is_deleted_while_it_is_asked_for_is_not_there(tmp_path: Path, nodes: ContextFS) -> None:
    nodes.write_node(WHOSE, node())

    stat = ContextFS(DeletedWhenNoted(), tmp_path / "context").stat_node(WHOSE, EVENT)

    assert (stat.exists, stat.version, stat.size) == (False, 0, 0)
    assert not nodes.exists(WHOSE, EVENT)


def test_levels_and_metadata_are_written_one_by_one(nodes: ContextFS) -> None:
    nodes.write_node(WHOSE, node())

    nodes.write_level(WHOSE, EVENT, Level.L0, "abstract 2")
    nodes.write_level(WHOSE, EVENT, Level.L1, "overview 2")
    nodes.write_level(WHOSE, EVENT, Level.L2, "content 2")
    nodes.write_metadata(WHOSE, EVENT, {"by": "hand"})

    levels = [nodes.read_level(WHOSE, EVENT, level) for level in Level]
    assert levels == ["abstract 2", "overview 2", "content 2"]
    assert nodes.read_metadata(WHOSE, EVENT) == {"by": "hand"}
    assert nodes.read_node(WHOSE, EVENT).relations == node().relations


def test_a_node_that_moves_takes_all_its_files_along(nodes: ContextFS) -> None:
    nodes.write_node(WHOSE, node())
    target = memory_at(Category.ENTITIES, "house")

    nodes.move_node(WHOSE, EVENT, target)

    assert not nodes.exists(WHOSE, EVENT)
    moved = nodes.read_node(WHOSE, target)
    assert (moved.parent_uri, moved.category, moved.content) == (f"{LI}/memories/entities", "entities", node().content)
    assert [edge.from_uri for edge in moved.relations] == [target]


def test_a_node_moves_to_no_place_that_is_taken(nodes: ContextFS) -> None:
    nodes.write_node(WHOSE, node())
    nodes.write_node(WHOSE, node(PROFILE))

    with pytest.raises(Conflict):
        nodes.move_node(WHOSE, EVENT, PROFILE)

    assert nodes.read_node(WHOSE, EVENT) == node()


def test_a_folder_is_deleted_with_what_is_below_only_when_that_is_said(nodes: ContextFS) -> None:
    for name in ("a", "b"):
        nodes.write_node(WHOSE, node(memory_at(Category.EVENTS, name)))
    nodes.write_node(WHOSE, node(PROFILE))

    with pytest.raises(Conflict):
        nodes.delete_node(WHOSE, f"{LI}/memories/events")
    nodes.delete_node(WHOSE, f"{LI}/memories/events", recursive=True)

    assert [one.uri for one in nodes.list_children(WHOSE, LI, recursive=True)] == [f"{LI}/memories", PROFILE]
    nodes.delete_node(WHOSE, PROFILE)
    assert nodes.list_children(WHOSE, "ctx://default", recursive=True) == []


def test_children_are_listed_by_their_uris_as_deep_as_is_asked(nodes: ContextFS) -> None:
    for address in (memory_at(Category.EVENTS, "b"), memory_at(Category.EVENTS, "a"), PROFILE, session_at("s1")):
        nodes.write_node(WHOSE, node(address))

    direct = nodes.list_children(WHOSE, LI)
    deeper = nodes.list_children(WHOSE, LI, depth=2)
    events = nodes.list_children(WHOSE, f"{LI}/memories/events")

    assert [one.uri for one in direct] == [f"{LI}/memories", f"{LI}/sessions"]
    assert all(one.has_children and one.updated_at is None for one in direct)
    assert [one.uri for one in deeper] == [
        f"{LI}/memories",
        f"{LI}/memories/events",
        PROFILE,
        f"{LI}/sessions",
        session_at("s1"),
    ]
    assert [(one.name, one.category, one.has_children) for one in events] == [
        ("a", "events", False),
        ("b", "events", False),
    ]
    assert nodes.list_children(WHOSE, PROFILE) == []


def test_a_directory_that_somebody_copied_is_listed_where_it_belongs_alone(nodes: ContextFS) -> None:
    nodes.write_node(WHOSE, node())
    folder = Path(nodes.resolve_path(WHOSE, EVENT))
    elsewhere = Path(nodes.resolve_path(WHOSE, memory_at(Category.ENTITIES, "house")))
    shutil.copytree(folder, elsewhere)

    beside = nodes.list_children(WHOSE, f"{LI}/memories/entities", recursive=True)
    above = nodes.list_children(WHOSE, f"{LI}/memories", recursive=True)

    assert beside == []
    assert [one.uri for one in above] == [f"{LI}/memories/events", EVENT]


def test_what_others_have_put_among_the_nodes_is_neither_listed_nor_deleted(nodes: ContextFS) -> None:
    nodes.write_node(WHOSE, node())
    space, folder = (Path(nodes.resolve_path(WHOSE, one)) for one in (LI, EVENT))
    backup, note = space.with_name("backup"), folder.parent / "notes.txt"
    shutil.copytree(space, backup)
    note.write_text("mine")

    listed = nodes.list_children(WHOSE, "ctx://default/users", recursive=True)
    nodes.delete_node(WHOSE, "ctx://default/users", recursive=True)

    assert [one.uri for one in listed] == [LI, f"{LI}/memories", f"{LI}/memories/events", EVENT]
    assert nodes.list_children(WHOSE, "ctx://default/users", recursive=True) == []
    assert (note.read_text(), len(list(backup.rglob("content.md")))) == ("mine", 1)


def test_a_node_that_is_deleted_and_written_while_it_is_read_is_whole_or_not_there(nodes: ContextFS) -> None:
    done = threading.Event()
    problems: list[str] = []

    def read() -> None:
        while not done.is_set():
            try:
                found = nodes.read_node(WHOSE, EVENT)
            except NotFound:
                continue
            if found.content != found.abstract * 500:
                problems.append(found.abstract)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(150):
        text = f"{number:04}"
        nodes.write_node(WHOSE, node(abstract=text, content=text * 500, version=number))
        if number % 5 == 4:
            nodes.delete_node(WHOSE, EVENT)
    done.set()
    for reader in readers:
        reader.join()

    assert problems == []


def test_a_node_that_stays_torn_is_never_shown(tmp_path: Path) -> None:
    pauses: list[float] = []
    files = NodeFiles(RealFileSystem(), pauses.append)
    folder = tmp_path / "node"
    files.put(folder, encoded(node(), Standing(3)))
    (folder / "content.md").write_text("torn")

    with pytest.raises(Unavailable):
        files.read(folder, frozenset({"content.md"}))

    assert len(pauses) > 1
    read = files.read(folder, frozenset({".abstract.md"}))
    assert read is not None
    assert read[1] == {".abstract.md": b"Moved house"}


@pytest.mark.parametrize("told", [{}, {"content.md": "nonsense"}])
def test_a_file_of_which_the_note_tells_nothing_is_never_shown(tmp_path: Path, told: dict[str, str]) -> None:
    files, folder = NodeFiles(RealFileSystem(), lambda _seconds: None), tmp_path / "node"
    files.put(folder, encoded(node(), Standing(3)))
    note = orjson.loads((folder / META).read_bytes())
    del note["files"]["content.md"]
    (folder / META).write_bytes(orjson.dumps({**note, "files": note["files"] | told}))

    with pytest.raises(Unavailable):
        files.read(folder, frozenset({"content.md"}))

    assert files.read(folder, frozenset({".abstract.md"})) is not None


def test_who_writes_waits_for_who_writes_and_not_for_ever(tmp_path: Path) -> None:
    pauses: list[float] = []
    files = RealFileSystem()

    with held(files, tmp_path), pytest.raises(Unavailable), held(files, tmp_path, 0.01, pauses.append):
        pytest.fail("two hold it")

    assert len(pauses) > 1
    with held(files, tmp_path):
        pass


# relations

OTHER, THIRD = memory_at(Category.EVENTS, "other"), memory_at(Category.EVENTS, "third")


def edge(to_uri: str, kind: str = "about", reason: str = "", weight: float = 1.0) -> RelationEdge:
    return RelationEdge(EVENT, to_uri, kind, reason, weight)


@pytest.fixture
def relations(nodes: ContextFS) -> RelationStore:
    nodes.write_node(WHOSE, node(relations=[]))
    return RelationStore(nodes)


def test_an_edge_that_is_put_twice_is_one_edge(relations: RelationStore) -> None:
    relations.upsert_edges(WHOSE, EVENT, [edge(OTHER), edge(THIRD)])
    relations.upsert_edges(WHOSE, EVENT, [edge(OTHER, reason="newer", weight=0.2)])

    assert relations.get_edges(WHOSE, EVENT) == [edge(OTHER, reason="newer", weight=0.2), edge(THIRD)]


def test_what_is_added_stands_behind_and_changes_nothing(relations: RelationStore) -> None:
    relations.upsert_edges(WHOSE, EVENT, [edge(OTHER, reason="first")])

    relations.append_edges(WHOSE, EVENT, [edge(OTHER, reason="second"), edge(OTHER, "before"), edge(THIRD)])

    assert relations.get_edges(WHOSE, EVENT) == [edge(OTHER, reason="first"), edge(OTHER, "before"), edge(THIRD)]


@pytest.mark.parametrize(
    ("to_uris", "kinds", "left"),
    [
        ([OTHER], None, [edge(THIRD)]),
        (None, ["before"], [edge(OTHER), edge(THIRD)]),
        ([OTHER], ["about"], [edge(OTHER, "before"), edge(THIRD)]),
        (None, None, []),
        (["ctx://default/users/li/memories/events/never"], None, [edge(OTHER), edge(OTHER, "before"), edge(THIRD)]),
    ],
)
def test_edges_are_removed_by_target_and_type_and_counted(
    relations: RelationStore, to_uris: list[str] | None, kinds: list[str] | None, left: list[RelationEdge]
) -> None:
    relations.upsert_edges(WHOSE, EVENT, [edge(OTHER), edge(OTHER, "before"), edge(THIRD)])

    removed = relations.remove_edges(WHOSE, EVENT, to_uris, kinds)

    assert removed == 3 - len(left)
    assert relations.get_edges(WHOSE, EVENT) == left


def test_edges_of_a_node_that_is_not_there_are_not_found(relations: RelationStore) -> None:
    with pytest.raises(NotFound):
        relations.get_edges(WHOSE, OTHER)
    with pytest.raises(NotFound):
        relations.upsert_edges(WHOSE, OTHER, [edge(THIRD)])


def test_edges_that_two_put_at_once_are_both_there(relations: RelationStore) -> None:
    targets = [memory_at(Category.EVENTS, f"t{number}") for number in range(20)]
    threads = [threading.Thread(target=relations.upsert_edges, args=(WHOSE, EVENT, [edge(one)])) for one in targets]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {one.to_uri for one in relations.get_edges(WHOSE, EVENT)} == set(targets)
