"""What every test may use."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, which is what the server and the tools run on."""
    return "asyncio"
