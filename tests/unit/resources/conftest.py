"""A desk that counts no reveals; a test of what an hour allows builds its own."""

import pytest

from tests.unit.resources.resource_desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()
