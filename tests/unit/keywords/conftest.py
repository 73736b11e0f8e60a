"""A tree without a model; a test that needs one, or caches, builds its own."""

import pytest

from tests.unit.keywords.tree_hub import TreeHub, hub_with


@pytest.fixture
def hub() -> TreeHub:
    return hub_with()
