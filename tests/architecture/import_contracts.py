"""A contract type for import-linter: layers in which `*` means all packages that no other layer names."""

from typing import Any

from grimp import ImportGraph
from importlinter.contracts.layers import Layer, LayersContract, ModuleTail
from importlinter.domain.contract import ContractCheck
from importlinter.domain.helpers import module_expressions_to_modules

_REST = "*"


class PatternLayers(LayersContract):
    """A `*` alone means packages that may import each other; after a `|` they must be independent."""

    type_name = "pattern_layers"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Replace each `*` by its packages, then check as the contract of layers does."""
        layers: list[Layer] = self.layers
        named = {tail.name for layer in layers for tail in layer.module_tails}
        containers = module_expressions_to_modules(graph, self.containers)  # type: ignore[arg-type]  # -- as above
        children = {child.rpartition(".")[2] for item in containers for child in graph.find_children(item.name)}
        rest = {ModuleTail(name, is_optional=True) for name in children - named}
        self.layers: Any = [_expand(layer, rest) for layer in layers]
        return super().check(graph, verbose)


def _expand(layer: Layer, rest: set[ModuleTail]) -> Layer:
    others = {tail for tail in layer.module_tails if tail.name != _REST}
    return layer if others == layer.module_tails else Layer(others | rest, layer.is_independent and bool(others))
