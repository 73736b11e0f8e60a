"""A bench that counts no reveals; a test of what an hour allows builds its own."""

import pytest

from tests.unit.resources.resource_bench import ResourceBench


@pytest.fixture
def bench() -> ResourceBench:
    return ResourceBench()
