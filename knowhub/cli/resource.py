"""`knowhub resource`: code, credentials, cookies and other texts; what is secret of them comes from a file or stdin."""

import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import checked, ids_of, tags_of, use_hub
from knowhub.cli.options import Caller, Place, spread
from knowhub.resources.ids import check_resource_id
from knowhub.resources.model import DEFAULT_CONTENT_TYPE, DEFAULT_LIMIT, RESOURCES, ResourcePage, SavedResource
from knowhub.web.schemas.resources import ResourceBody, ResourceListParams

app = typer.Typer(help="Code, credentials, cookies and other texts.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="A path such as credentials/website_a.", show_default=False)]
_OPTIONS = {"id": "ID", "secure_body": "--secure-file", "body": "--body", "metadata": "--metadata"}


@dataclass(frozen=True, slots=True)
class ResourceText:
    """What `resource save` takes of a resource."""

    title: Annotated[str, typer.Option(help="What it is, in a line.")] = ""
    body: Annotated[str, typer.Option(help="What everybody may read who sees it.")] = ""
    body_file: Annotated[Path | None, typer.Option(help="Read that from a file; - for stdin.")] = None
    secure_file: Annotated[
        Path | None,
        typer.Option(help="Read what is to be sealed from a file; - for stdin. Never typed: shells keep it."),
    ] = None
    content_type: Annotated[str, typer.Option(help="code, credential, cookie, text or another word.")] = (
        DEFAULT_CONTENT_TYPE
    )
    metadata: Annotated[list[str], typer.Option("--metadata", metavar="NAME=VALUE")] = field(default_factory=list)
    scopes: Annotated[list[str], typer.Option("--scope", help="Who sees it. Default: its owner.")] = field(
        default_factory=list
    )
    owner: Annotated[str | None, typer.Option(help="user:ID or agent:ID.")] = None
    expires_at: Annotated[str | None, typer.Option(metavar="TIME", help="From when on it is of no use.")] = None

    def sent(self, resource_id: str) -> ResourceBody:
        """Return what the HTTP API would take."""
        values = {
            "id": resource_id,
            "title": self.title,
            "body": _read(self.body_file) if self.body_file else self.body,
            "secure_body": _read(self.secure_file).removesuffix("\n") if self.secure_file else None,
            "content_type": self.content_type,
            "metadata": tags_of(self.metadata, "--metadata"),
            "scopes": self.scopes,
            "owner": self.owner,
            "expires_at": self.expires_at,
        }
        return checked(ResourceBody, values, _OPTIONS)


@dataclass(frozen=True, slots=True)
class Listed:
    """Which resources `resource list` shows."""

    prefix: Annotated[str, typer.Option(help="Only those whose id begins so.")] = ""
    content_type: Annotated[str | None, typer.Option(help="Only of this kind.")] = None
    expired: Annotated[bool | None, typer.Option(help="Only those that have expired, or only the others.")] = None
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = DEFAULT_LIMIT
    cursor: Annotated[str | None, typer.Option(help="next_cursor of the page before.")] = None


@app.command("save")
@spread
def save(
    resource_id: Id,
    text: ResourceText,
    caller: Caller,
    place: Place,
    upsert: Annotated[bool, typer.Option("--upsert", help="Save a new version where the id is taken.")] = False,
) -> None:
    """Save a resource; what is secret of it is sealed."""
    body, ids = text.sent(resource_id), ids_of(caller)

    async def work(hub: Hub) -> SavedResource:
        return await hub.resources.save(ids.context(hub.default_owner), body.to_new(), upsert=upsert)

    saved = use_hub(place, work, make=True)
    if place.as_json:
        output.print_json({**saved.record, "operation_id": saved.operation_id})
        return
    output.say(f"saved  {saved.record['id']}  (version {saved.record['version']})")
    output.say_undo(saved.operation_id)


@app.command("get")
@spread
def get(
    resource_id: Id,
    caller: Caller,
    place: Place,
    reveal: Annotated[bool, typer.Option("--reveal", help="With what is sealed of it; that is noted.")] = False,
) -> None:
    """Show one resource, whole."""
    ids = ids_of(caller)

    async def work(hub: Hub) -> dict[str, Any]:
        ctx = ids.context(hub.default_owner)
        if not reveal:
            return dict(await hub.resources.get(ctx, resource_id))
        shown = await hub.resources.reveal(ctx, resource_id)
        return {**shown.record, "secure_body": shown.secure_body, "operation_id": shown.operation_id}

    record = use_hub(place, work)
    if place.as_json:
        output.print_json(record)
        return
    table = output.table("field", "value")
    for name, value in record.items():
        table.add_row(name, output.cell(value))
    output.print_table(table)


@app.command("list")
@spread
def list_resources(listed: Listed, caller: Caller, place: Place) -> None:
    """List resources by id, without what is sealed of them."""
    ids, params = ids_of(caller), checked(ResourceListParams, asdict(listed))

    async def work(hub: Hub) -> ResourcePage:
        return await hub.resources.page(ids.context(hub.default_owner), params.query())

    page = use_hub(place, work)
    if place.as_json:
        output.print_json({"results": list(page.records), "count": len(page.records), "next_cursor": page.next_after})
        return
    table = output.table("id", "kind", "title", "owner", "sealed", "expires")
    for one in page.records:
        expires = f"{one['expires_at'] or ''}{' (expired)' if one['expired'] else ''}"
        row = (one["id"], one["content_type"], one["title"], one["owner"], one["has_secure_body"], expires)
        table.add_row(*map(output.cell, row))
    output.print_table(table)
    if page.next_after is not None:
        output.say(f"more with: --cursor {page.next_after}")


@app.command("delete")
@spread
def delete(
    resource_id: Id,
    caller: Caller,
    place: Place,
    erase: Annotated[
        bool, typer.Option("--erase", help="Have it gone for good, with the key of what is sealed.")
    ] = False,
) -> None:
    """Delete a resource; undoing the operation brings it back, unless it was erased."""
    ids = ids_of(caller)

    async def work(hub: Hub) -> str:
        ctx = ids.context(hub.default_owner)
        if erase:
            return (await hub.erasures.erase(ctx, RESOURCES, check_resource_id(resource_id))).operation_id
        return await hub.resources.delete(ctx, check_resource_id(resource_id))

    operation_id = use_hub(place, work)
    if place.as_json:
        output.print_json({"operation_id": operation_id})
        return
    output.say(f"{'erased' if erase else 'deleted'}  {resource_id}")
    if not erase:
        output.say_undo(operation_id)


def _read(path: Path) -> str:
    data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{path} is not UTF-8 text") from None
