"""The app on a hub whose language model answers from a script."""

import pytest

from knowhub.bootstrap import World
from knowhub.core.chat import ChatModel
from tests.fakes.queued_chat import Answer, QueuedChat, Reading


@pytest.fixture
def script() -> list[Answer]:
    """What the model will answer, in order; a test fills it."""
    return []


@pytest.fixture
def model(script: list[Answer]) -> QueuedChat:
    return Reading(script)


@pytest.fixture
def world(model: ChatModel) -> World:
    return World(llm=model)
