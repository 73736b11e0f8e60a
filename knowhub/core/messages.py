"""A message of a conversation, as every chat interface has it."""

from dataclasses import dataclass

from knowhub.core import speakers


@dataclass(frozen=True, slots=True)
class Message:
    """One message; only `role` and `content` are needed. `timestamp` is ISO 8601 as it was sent."""

    role: str
    content: str
    name: str = ""
    message_id: str | None = None
    timestamp: str | None = None

    @property
    def is_user(self) -> bool:
        """Whether a person wrote it."""
        return speakers.is_one_of(speakers.USER, self.role)

    @property
    def is_agent(self) -> bool:
        """Whether a model wrote it."""
        return speakers.is_one_of(speakers.AGENT, self.role)

    @property
    def is_tool(self) -> bool:
        """Whether it is what a tool answered."""
        return speakers.is_one_of(speakers.TOOL, self.role)

    @property
    def is_system(self) -> bool:
        """Whether it is an application's words, which are nobody's memories."""
        return speakers.is_one_of(speakers.SYSTEM, self.role)
