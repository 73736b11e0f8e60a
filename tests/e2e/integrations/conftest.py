"""One server for the tests of integrations, and a user of its own for each test."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.e2e.server_process import run_server


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_server(tmp_path_factory.mktemp("integrations") / "data") as server:
        yield server.url


@pytest.fixture
def user() -> str:
    return f"li-{uuid4().hex[:8]}"
