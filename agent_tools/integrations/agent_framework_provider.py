"""A context provider of Microsoft's Agent Framework on KnowHub: what fits is shown before a run, what was said is kept.

Needs the extra `agent-framework`. See docs/how-to/use-agent-framework.md.
"""

import logging
from typing import Any, Final

from agent_framework import AgentSession, ContextProvider, Message, SessionContext

from agent_tools import fences
from agent_tools.integrations.session_memory import commit_messages, find_memories
from agent_tools.results import ToolFailure

SHOWN_MEMORIES: Final = 5

_log = logging.getLogger(__name__)


class KnowHubContextProvider(ContextProvider):
    """Shows a model what fits its input, fenced, and has the server learn from what is said.

    An agent goes on without its memory: failures of the server are logged as warnings.
    """

    def __init__(self, user_id: str) -> None:
        super().__init__("knowhub")
        self._user_id = user_id

    async def before_run(
        self,
        *,
        agent: object,  # noqa: ARG002 -- as the base class
        session: AgentSession,  # noqa: ARG002 -- as the base class
        context: SessionContext,
        state: dict[str, Any],  # noqa: ARG002 -- as the base class
    ) -> None:
        """Add a message with the memories that fit the input; none if nothing fits."""
        question = "\n".join(message.text for message in context.input_messages if message.role == "user")
        try:
            found = await find_memories(self._user_id, question, SHOWN_MEMORIES)
        except ToolFailure as failure:
            _log.warning("No memories are shown: %s", failure.advice)
            return
        if found:
            text = "\n\n".join([fences.FENCE_NOTE, *(memory.quoted for memory in found)])
            context.extend_messages(self, [Message("user", [text])])

    async def after_run(
        self,
        *,
        agent: object,  # noqa: ARG002 -- as the base class
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],  # noqa: ARG002 -- as the base class
    ) -> None:
        """Store the input and the answer, and the memories in them."""
        said = [*context.input_messages, *(context.response.messages if context.response else ())]
        messages = [{"role": str(message.role), "content": message.text} for message in said if message.text]
        try:
            await commit_messages(self._user_id, session.session_id, messages)
        except ToolFailure as failure:
            _log.warning("A turn was not stored: %s", failure.advice)
