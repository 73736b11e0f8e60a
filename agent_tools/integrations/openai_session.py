"""A session of the OpenAI Agents SDK on KnowHub: the items of a conversation are kept with a user.

Needs the extra `openai-agents`. See docs/how-to/use-openai-agents.md.
"""

from agents import SessionSettings, TResponseInputItem
from agents.memory import SessionABC
from agents.memory.session_settings import resolve_session_limit

from agent_tools.integrations.documents import DocumentFolder, ItemLog


class KnowHubSession(SessionABC):
    """The items of a conversation, in the order in which they were added. Errors of the server are `ToolFailure`.

    A call of `add_items` is stored whole or not at all.
    """

    def __init__(self, session_id: str, user_id: str, session_settings: SessionSettings | None = None) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._log = ItemLog(DocumentFolder("openai-sessions", user_id), (session_id,))

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; only the newest `limit`, or those that the settings limit."""
        items: list[TResponseInputItem] = await self._log.read()
        newest = resolve_session_limit(limit, self.session_settings)
        return items if newest is None else items[max(0, len(items) - max(0, newest)) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end."""
        if items:
            await self._log.append(items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it, None if there is none."""
        item: TResponseInputItem | None = await self._log.pop()
        return item

    async def clear_session(self) -> None:
        """Delete all items."""
        await self._log.clear()
