"""Payloads of hooks, as the hosts send them, and the answers that they take."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from knowhub.web.schemas.context import SessionId
from knowhub.web.schemas.parts import Answer, Text, clean

_PATH_CHARS: Final = 4_096

HostPath = Annotated[str, Field(max_length=_PATH_CHARS), AfterValidator(clean)]


class HookPayload(BaseModel):
    """What a host sends to a hook. Fields that are not read here are allowed: hosts add some with each version."""

    model_config = ConfigDict(extra="allow", strict=True)

    session_id: SessionId | None = Field(default=None, description="The session; of Claude Code and Codex.")
    conversation_id: SessionId | None = Field(default=None, description="The session; of Cursor.")
    hook_event_name: str | None = Field(default=None, description="The event; it must be that of the address.")
    prompt: Text | None = Field(default=None, description="What the user sends.")
    source: str | None = Field(default=None, description="Why a session starts, such as `startup` or `compact`.")
    cwd: HostPath | None = Field(default=None, description="The folder of the agent.")
    workspace_roots: list[HostPath] | None = Field(default=None, description="The folders of Cursor.")
    transcript_path: HostPath | None = Field(default=None, description="The file of the transcript.")
    transcript: str | None = Field(
        default=None, description="Lines of the transcript, where the server cannot read the file."
    )
    transcript_offset: int = Field(default=0, ge=0, description="Where these lines begin in the file, in bytes.")


class HookOutput(Answer):
    """A text for the agent."""

    hookEventName: str  # noqa: N815 -- the host's name
    additionalContext: str  # noqa: N815 -- the host's name


class HookReply(Answer):
    """The answer in the form of the host; empty where nothing is to be shown."""

    hookSpecificOutput: HookOutput | None = Field(  # noqa: N815 -- the host's name
        default=None, description="What Claude Code and Codex show their model."
    )
    additional_context: str | None = Field(default=None, description="What Cursor shows its model.")
    # `continue` is a keyword of Python.
    goes_on: bool | None = Field(default=None, alias="continue", description="Cursor: the prompt is sent.")
