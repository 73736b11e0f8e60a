"""`knowhub resource`: code, credentials, cookies and other texts. Secrets come from a file or from stdin."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.commands import Answer, Lines, route_command
from knowhub.cli.hub_access import parse_tags
from knowhub.cli.inputs import read_text
from knowhub.resources.model import DEFAULT_CONTENT_TYPE, DEFAULT_LIMIT

app = typer.Typer(help="Code, credentials, cookies and other texts.", no_args_is_help=True)

_ID_HELP = "A path such as credentials/website_a."
ResourceId = Annotated[str, typer.Argument(metavar="ID", help=_ID_HELP, show_default=False)]


@dataclass(frozen=True, slots=True)
class ResourceOptions:
    """The fields of a resource."""

    id: ResourceId
    title: Annotated[str, typer.Option(help="A title of one line.")] = ""
    body: Annotated[str, typer.Option(help="The public text.")] = ""
    body_file: Annotated[Path | None, typer.Option(help="Read the public text from a file; - reads stdin.")] = None
    secure_body: Annotated[
        Path | None,
        typer.Option(
            "--secure-file",
            help="Read the secret text from a file; - reads stdin. It is sealed. Shells store typed options.",
        ),
    ] = None
    content_type: Annotated[str, typer.Option(help="code, credential, cookie, text or another word.")] = (
        DEFAULT_CONTENT_TYPE
    )
    metadata: Annotated[list[str] | None, typer.Option("--metadata", metavar="NAME=VALUE")] = None
    scopes: Annotated[list[str] | None, typer.Option("--scope", help="Who may see it. Default: its owner.")] = None
    owner: Annotated[str | None, typer.Option(help="user:ID or agent:ID.")] = None
    expires_at: Annotated[str | None, typer.Option(metavar="TIME", help="It cannot be used from this time on.")] = None
    upsert: Annotated[bool, typer.Option("--upsert", help="Save a new version when the id exists.")] = False

    def values(self) -> dict[str, Any]:
        """Return the fields of the body of the HTTP API."""
        values = asdict(self) | {
            "body": read_text(self.body_file) if self.body_file else self.body,
            "secure_body": read_text(self.secure_body).removesuffix("\n") if self.secure_body else None,
            "metadata": parse_tags(self.metadata, "--metadata"),
        }
        del values["body_file"]
        return values


@route_command(app, "save", "resources.save_resource", creates=lambda _: True)
def save(saved: Answer, draft: ResourceOptions) -> Lines:
    """Save a resource. Its secret text is sealed."""
    yield f"saved  {saved['id']}  (version {saved['version']})"
    yield from output.list_undo(saved["operation_id"])


@route_command(app, "get", "resources.get_resource")
def get(
    record: Answer,
    resource_id: ResourceId,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show the secret text too. The log records it.")] = False,
) -> Lines:
    """Show all fields of a resource."""
    return output.list_fields(record)


@route_command(app, "list", "resources.list_resources")
def list_resources(
    page: Answer,
    prefix: Annotated[str, typer.Option(help="Only ids that begin with this text.")] = "",
    content_type: Annotated[str | None, typer.Option(help="Only this content type.")] = None,
    expired: Annotated[bool | None, typer.Option(help="Only resources that have expired, or only the others.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many resources.")] = DEFAULT_LIMIT,
    cursor: Annotated[str | None, typer.Option(help="The next_cursor of the page before.")] = None,
) -> Lines:
    """List resources by id, without their secret texts."""
    fields = {"id": "id", "type": "content_type", "title": "title", "owner": "owner", "sealed": "has_secure_body"}

    def show_expiry(record: Answer) -> str:
        return f"{record['expires_at'] or ''}{' (expired)' if record['expired'] else ''}"

    return output.list_page(page, {**fields, "expires": show_expiry})


@route_command(app, "delete", "resources.delete_resource")
def delete(
    deleted: Answer,
    resource_id: ResourceId,
    erase: Annotated[bool, typer.Option("--erase", help="Erase it for good, with the key of its secret text.")] = False,
) -> Lines:
    """Delete a resource. The deletion can be undone, unless it was erased."""
    yield f"{'erased' if erase else 'deleted'}  {resource_id}"
    yield from output.list_undo(None if erase else deleted["operation_id"])
