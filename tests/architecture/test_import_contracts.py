"""The contract of layers with a star for the domains: it reports every breach."""

import pytest
from grimp import ImportGraph

from tests.architecture.import_contracts import PatternLayers


def check_contract(layers: list[str], importer: str, imported: str) -> bool:
    graph = ImportGraph()
    for name in ("web", "engine", "core", "bookmarks", "notes"):
        graph.add_module(f"app.{name}")
    graph.add_module("app")
    graph.add_import(importer=f"app.{importer}", imported=f"app.{imported}")
    contract = PatternLayers("test", {"root_packages": ["app"]}, {"layers": layers, "containers": ["app"]})
    return contract.check(graph, verbose=False).kept


@pytest.mark.parametrize(
    ("importer", "imported", "expected"),
    [
        ("web", "bookmarks", True),
        ("bookmarks", "core", True),
        ("bookmarks", "notes", False),
        ("bookmarks", "web", False),
        ("engine", "core", True),
        ("core", "bookmarks", False),
    ],
)
def test_packages_that_no_layer_names_are_independent_layers(importer: str, imported: str, expected: bool) -> None:
    assert check_contract(["web", "engine", "* | (missing)", "core"], importer, imported) is expected


@pytest.mark.parametrize(
    ("importer", "imported", "expected"), [("bookmarks", "notes", True), ("engine", "notes", False)]
)
def test_a_star_alone_stands_for_packages_that_may_import_each_other(
    importer: str, imported: str, expected: bool
) -> None:
    assert check_contract(["*", "engine", "core"], importer, imported) is expected
