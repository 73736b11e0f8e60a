"""The app on a hub whose language model answers from a script."""

import pytest

from knowhub.core.language_models import ChatModel
from knowhub.wiring.adapters import Overrides
from tests.fakes.queued_chat import Answer, QueuedChat, RefilledQueueChat


@pytest.fixture
def script() -> list[Answer]:
    """The answers of the model, in order; a test fills it."""
    return []


@pytest.fixture
def model(script: list[Answer]) -> QueuedChat:
    return RefilledQueueChat(script)


@pytest.fixture
def overrides(model: ChatModel) -> Overrides:
    return Overrides(llm=model)
