"""`knowhub resource`: code, credentials, cookies and other texts. Secrets come from a file or from stdin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.hub_access import parse_tags, run_route
from knowhub.cli.inputs import read_text
from knowhub.cli.options import CallerOptions, expand_options
from knowhub.resources.model import DEFAULT_CONTENT_TYPE, DEFAULT_LIMIT

app = typer.Typer(help="Code, credentials, cookies and other texts.", no_args_is_help=True)

ResourceId = Annotated[
    str, typer.Argument(metavar="ID", help="A path such as credentials/website_a.", show_default=False)
]
_OPTION_NAMES = {"id": "ID", "secure_body": "--secure-file", "body": "--body", "metadata": "--metadata"}


@dataclass(frozen=True, slots=True)
class ResourceOptions:
    """The fields of a resource."""

    title: Annotated[str, typer.Option(help="A title of one line.")] = ""
    body: Annotated[str, typer.Option(help="The public text.")] = ""
    body_file: Annotated[Path | None, typer.Option(help="Read the public text from a file; - reads stdin.")] = None
    secure_file: Annotated[
        Path | None,
        typer.Option(help="Read the secret text from a file; - reads stdin. It is sealed. Shells store typed options."),
    ] = None
    content_type: Annotated[str, typer.Option(help="code, credential, cookie, text or another word.")] = (
        DEFAULT_CONTENT_TYPE
    )
    metadata: Annotated[list[str], typer.Option("--metadata", metavar="NAME=VALUE")] = field(default_factory=list)
    scopes: Annotated[list[str], typer.Option("--scope", help="Who may see it. Default: its owner.")] = field(
        default_factory=list
    )
    owner: Annotated[str | None, typer.Option(help="user:ID or agent:ID.")] = None
    expires_at: Annotated[str | None, typer.Option(metavar="TIME", help="It cannot be used from this time on.")] = None

    def values(self) -> dict[str, Any]:
        """Return the fields of the body of the HTTP API."""
        values = asdict(self) | {
            "body": read_text(self.body_file) if self.body_file else self.body,
            "secure_body": read_text(self.secure_file).removesuffix("\n") if self.secure_file else None,
            "metadata": parse_tags(self.metadata, "--metadata"),
        }
        del values["body_file"], values["secure_file"]
        return values


@dataclass(frozen=True, slots=True)
class ResourceListOptions:
    """The filters and the page of `resource list`."""

    prefix: Annotated[str, typer.Option(help="Only ids that begin with this text.")] = ""
    content_type: Annotated[str | None, typer.Option(help="Only this content type.")] = None
    expired: Annotated[bool | None, typer.Option(help="Only resources that have expired, or only the others.")] = None
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many resources.")] = DEFAULT_LIMIT
    cursor: Annotated[str | None, typer.Option(help="The next_cursor of the page before.")] = None


@app.command("save")
@expand_options
def save(
    resource_id: ResourceId,
    draft: ResourceOptions,
    options: CallerOptions,
    upsert: Annotated[bool, typer.Option("--upsert", help="Save a new version when the id exists.")] = False,
) -> None:
    """Save a resource. Its secret text is sealed."""
    values = {"id": resource_id, **draft.values(), "upsert": upsert}
    saved = run_route(options, "resources.save_resource", values, create=True, option_names=_OPTION_NAMES)
    line = f"saved  {saved['id']}  (version {saved['version']})"
    output.print_answer(saved, line, as_json=options.as_json, undo=saved["operation_id"])


@app.command("get")
@expand_options
def get(
    resource_id: ResourceId,
    options: CallerOptions,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show the secret text too. The log records it.")] = False,
) -> None:
    """Show all fields of a resource."""
    record = run_route(options, "resources.get_resource", {"reveal": reveal}, {"resource_id": resource_id})
    if options.as_json:
        output.print_json(record)
    else:
        output.print_table(("field", "value"), list(record.items()))


@app.command("list")
@expand_options
def list_resources(page_options: ResourceListOptions, options: CallerOptions) -> None:
    """List resources by id, without their secret texts."""
    page = run_route(options, "resources.list_resources", asdict(page_options))
    columns: dict[str, Callable[[Mapping[str, Any]], object]] = {
        "id": lambda record: record["id"],
        "type": lambda record: record["content_type"],
        "title": lambda record: record["title"],
        "owner": lambda record: record["owner"],
        "sealed": lambda record: record["has_secure_body"],
        "expires": lambda record: f"{record['expires_at'] or ''}{' (expired)' if record['expired'] else ''}",
    }
    output.print_page(page["results"], columns, page["next_cursor"], as_json=options.as_json)


@app.command("delete")
@expand_options
def delete(
    resource_id: ResourceId,
    options: CallerOptions,
    erase: Annotated[bool, typer.Option("--erase", help="Erase it for good, with the key of its secret text.")] = False,
) -> None:
    """Delete a resource. The deletion can be undone, unless it was erased."""
    deleted = run_route(options, "resources.delete_resource", {"erase": erase}, {"resource_id": resource_id})
    line = f"{'erased' if erase else 'deleted'}  {resource_id}"
    output.print_answer(deleted, line, as_json=options.as_json, undo=None if erase else deleted["operation_id"])
