"""Requests and answers about API keys."""

from typing import Annotated, Literal

from pydantic import Field

from knowhub.core.request_context import Role
from knowhub.identity.model import Holder, NewKey
from knowhub.web.schemas.answers import Answer
from knowhub.web.schemas.parts import MAX_LIST, EntityId, Moment, OperationAnswer, Part

_Ids = Annotated[list[EntityId], Field(max_length=MAX_LIST)]


class KeyBody(Part):
    """A key to make: the ids name its holder, not the caller."""

    account: EntityId | None = Field(default=None, description="Default: the caller's account.")
    user_id: EntityId | None = Field(default=None, description="The user that the key stands for; or `agent_id`.")
    agent_id: EntityId | None = Field(default=None, description="With a user too: the agent that owns what it saves.")
    role: Literal["reader", "writer", "admin"] = Field(
        default="writer",
        description="`reader` reads and gives evidence, `writer` saves, `admin` does everything in the account.",
    )
    project_ids: _Ids = Field(default_factory=list, description="The holder sees `project:ID` of each.")
    team_ids: _Ids = Field(default_factory=list)
    org_ids: _Ids = Field(default_factory=list)
    expires_at: Moment | None = Field(default=None, description="From then on the key opens nothing.")

    def to_new(self) -> NewKey:
        """Return the key that is asked for."""
        groups = (tuple(dict.fromkeys(ids)) for ids in (self.project_ids, self.team_ids, self.org_ids))
        return NewKey(Holder(self.user_id, self.agent_id, *groups), Role(self.role), self.expires_at)


class KeyRecord(Answer):
    """What is told of a key: everything but its text, of which the hub itself has a hash only."""

    key_id: str = Field(examples=["key-7f1c2b9e6a520f0c"])
    account: str
    user_id: str | None
    agent_id: str | None
    role: str
    project_ids: list[str]
    team_ids: list[str]
    org_ids: list[str]
    expires_at: str | None
    expired: bool
    revoked_at: str | None
    replaced_by: str | None = Field(description="The key that took its place.")
    last_used_at: str | None = Field(description="To the hour, where another process was asked.")
    version: int
    created_at: str
    updated_at: str


class KeyList(Answer):
    results: list[KeyRecord]
    count: int
    next_cursor: str | None


class MintedKey(KeyRecord, OperationAnswer):
    key: str | None = Field(description="The key itself, told this once; null where a retry is answered.")
    replaces: str | None = Field(description="The key that it took the place of.")
