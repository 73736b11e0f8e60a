"""Options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from knowhub.core.request_context import CONTEXT_IDS

_CALLER = "Who is asking"


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """The data directory, and the form of the answer."""

    data_dir: Annotated[Path | None, typer.Option(help="The data directory. Default: KNOWHUB_DATA_DIR.")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as the HTTP API answers.")] = False

    def ids(self) -> dict[str, str | None]:
        """Return the ids of the caller that are typed, by the names of the HTTP API."""
        return {}


@dataclass(frozen=True, slots=True)
class CallerOptions(CommonOptions):
    """Who is asking. Without any of these it is the local principal, who may see and do everything."""

    user_id: Annotated[str | None, typer.Option(help="Act as this user.", rich_help_panel=_CALLER)] = None
    agent_id: Annotated[str | None, typer.Option(help="Act as this agent.", rich_help_panel=_CALLER)] = None
    project_id: Annotated[str | None, typer.Option(help="Also see project:ID.", rich_help_panel=_CALLER)] = None
    team_id: Annotated[str | None, typer.Option(help="Also see team:ID.", rich_help_panel=_CALLER)] = None
    org_id: Annotated[str | None, typer.Option(help="Also see org:ID.", rich_help_panel=_CALLER)] = None

    def ids(self) -> dict[str, str | None]:
        """Return the ids of the caller that are typed, by the names of the HTTP API."""
        return {name: getattr(self, name) for name in CONTEXT_IDS}
