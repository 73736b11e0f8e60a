"""A bench without a limit on reveals; a test of the hourly limit builds its own."""

import pytest

from tests.unit.resources.resource_bench import ResourceBench


@pytest.fixture
def bench() -> ResourceBench:
    return ResourceBench()
