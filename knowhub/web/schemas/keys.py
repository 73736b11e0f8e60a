"""Requests and answers about API keys."""

from typing import Annotated, Literal

from pydantic import Field

from knowhub.core.request_context import Role
from knowhub.identity.model import KeyHolder, NewKey
from knowhub.web.schemas.parts import MAX_LIST, Answer, EntityId, Moment, OperationAnswer, Page, Part

_Ids = Annotated[list[EntityId], Field(max_length=MAX_LIST)]


class KeyBody(Part):
    """A key to make: the ids name its holder, not the caller."""

    account: EntityId | None = Field(default=None, description="Default: the caller's account.")
    user_id: EntityId | None = Field(default=None, description="The user who holds the key; or use `agent_id`.")
    agent_id: EntityId | None = Field(default=None, description="The agent that holds the key and owns what it saves.")
    role: Literal["reader", "writer", "admin"] = Field(
        default="writer",
        description="`reader` reads and gives evidence, `writer` saves, `admin` does everything in the account.",
    )
    project_ids: _Ids = Field(default_factory=list, description="The holder sees `project:ID` for each of them.")
    team_ids: _Ids = Field(default_factory=list)
    org_ids: _Ids = Field(default_factory=list)
    expires_at: Moment | None = Field(default=None, description="The key is invalid from this time on.")

    def to_new(self) -> NewKey:
        """Return the key that is asked for."""
        groups = (tuple(dict.fromkeys(ids)) for ids in (self.project_ids, self.team_ids, self.org_ids))
        return NewKey(KeyHolder(self.user_id, self.agent_id, *groups), Role(self.role), self.expires_at)


class KeyRecord(Answer):
    """The public view of a key: everything but its text, which is stored as a hash only."""

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
    replaced_by: str | None = Field(description="The key that replaced it.")
    last_used_at: str | None = Field(description="Exact to the hour if another process answered the requests.")
    version: int
    created_at: str
    updated_at: str


class KeyList(Page[KeyRecord]):
    pass


class IssuedKeyAnswer(KeyRecord, OperationAnswer):
    key: str | None = Field(description="The key itself. It is returned only once; null in the answer to a retry.")
    replaces: str | None = Field(description="The key that it replaced.")
