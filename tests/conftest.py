"""What every test may use."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# `make nightly` loads the second.
settings.register_profile("quick", max_examples=25, deadline=None)
settings.register_profile("nightly", max_examples=300, deadline=None)
settings.load_profile("quick")


def pytest_configure() -> None:
    """Search by words only: the tests of the packaged embedder switch it on."""
    pytest.MonkeyPatch().setenv("KNOWHUB_EMBEDDING", "off")


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, which is what the server and the tools run on."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _no_syncs() -> Iterator[None]:
    """Leave out what only a power cut would show. Fakes count syncs; servers and writers apart do them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(os, "fdatasync", lambda descriptor: None)
        yield
