"""API keys: making, listing, replacing and ending them on the data directory, with a server running or none."""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from knowhub.bootstrap import Hub
from knowhub.cli import output
from knowhub.cli.hub_access import checked, use_hub
from knowhub.cli.options import Place, spread
from knowhub.core.errors import NotFound
from knowhub.core.request_context import DEFAULT_ACCOUNT, RequestContext, Role, local_context
from knowhub.web.routes.admin import shown, told
from knowhub.web.schemas.keys import KeyBody

app = typer.Typer(help="Say who may call, where KNOWHUB_AUTH=api-key.", no_args_is_help=True)

_KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="Which key, by its name in `knowhub keys list`.")]


@dataclass(frozen=True, slots=True)
class HolderText:
    """What `keys create` takes of a key."""

    user_id: Annotated[str | None, typer.Option(help="The user that it stands for; or --agent-id.")] = None
    agent_id: Annotated[str | None, typer.Option(help="The agent that it stands for, and that owns what it saves.")] = (
        None
    )
    role: Annotated[str, typer.Option(metavar="reader|writer|admin", help="What it may do.")] = Role.WRITER.value
    project_ids: Annotated[list[str], typer.Option("--project-id", help="May come several times.")] = field(
        default_factory=list
    )
    team_ids: Annotated[list[str], typer.Option("--team-id", help="May come several times.")] = field(
        default_factory=list
    )
    org_ids: Annotated[list[str], typer.Option("--org-id", help="May come several times.")] = field(
        default_factory=list
    )
    expires_at: Annotated[str | None, typer.Option(help="From when on it opens nothing (ISO 8601).")] = None
    account: Annotated[str, typer.Option(help="The account that it belongs to.")] = DEFAULT_ACCOUNT

    def body(self) -> KeyBody:
        """Return what the HTTP API would take."""
        names = {"project_ids": "--project-id", "team_ids": "--team-id", "org_ids": "--org-id"}
        return checked(KeyBody, asdict(self), names)


@app.command("create")
@spread
def create(holder: HolderText, place: Place) -> None:
    """Make a key and print it, this once; the directory keeps its hash only."""
    body = holder.body()

    async def work(hub: Hub) -> dict[str, Any]:
        minted = await hub.identity.mint(local_context(hub.default_owner, holder.account), body.to_new())
        return told(hub.identity, minted) | {"operation_id": minted.operation_id}

    _print_new(use_hub(place, work, make=True), place)


@app.command("list")
@spread
def list_keys(
    place: Place, account: Annotated[str | None, typer.Option(help="Only those of this account.")] = None
) -> None:
    """List the keys, the oldest first, ended ones too."""

    async def work(hub: Hub) -> list[dict[str, Any]]:
        keys = await hub.identity.keys(local_context(hub.default_owner), account)
        return [shown(hub.identity, key) for key in keys]

    keys = use_hub(place, work)
    if place.as_json:
        output.print_json({"results": keys, "count": len(keys), "next_cursor": None})
        return
    table = output.table("key", "account", "holder", "role", "until", "last used")
    for key in keys:
        cells = (key["key_id"], key["account"], _holder(key), key["role"], _until(key), key["last_used_at"] or "")
        table.add_row(*map(output.cell, cells))
    output.print_table(table)


@app.command("rotate")
@spread
def rotate(key_id: _KeyId, place: Place) -> None:
    """Put a new key in the place of one, and print it; the old one ends at once."""

    async def work(hub: Hub) -> dict[str, Any]:
        minted = await hub.identity.rotate(await _at(hub, key_id), key_id)
        return told(hub.identity, minted) | {"operation_id": minted.operation_id}

    _print_new(use_hub(place, work), place)


@app.command("revoke")
@spread
def revoke(key_id: _KeyId, place: Place) -> None:
    """End a key at once; nothing brings it back."""

    async def work(hub: Hub) -> str | None:
        return await hub.identity.revoke(await _at(hub, key_id), key_id)

    operation_id = use_hub(place, work)
    if place.as_json:
        output.print_json({"operation_id": operation_id})
    else:
        output.say(f"revoked {key_id}" if operation_id is not None else f"{key_id} was revoked before")


async def _at(hub: Hub, key_id: str) -> RequestContext:
    account = await hub.identity.account_of(key_id)
    if account is None:
        raise NotFound.of("key", key_id)
    return local_context(hub.default_owner, account)


def _print_new(key: dict[str, Any], place: Place) -> None:
    if place.as_json:
        output.print_json(key)
        return
    # The key alone stands on stdout, so that a script can take it up.
    output.say(key["key"])
    output.warn(f"{key['key_id']}: {_holder(key)}, {key['role']} in account {key['account']}; it is shown this once")


def _holder(key: dict[str, Any]) -> str:
    own = [f"{kind}:{key[f'{kind}_id']}" for kind in ("user", "agent") if key[f"{kind}_id"] is not None]
    return ", ".join([*own, *(f"{kind}:{one}" for kind in ("project", "team", "org") for one in key[f"{kind}_ids"])])


def _until(key: dict[str, Any]) -> str:
    if key["revoked_at"] is not None:
        return f"revoked {key['revoked_at']}"
    until = key["expires_at"] or "no end"
    return f"expired {until}" if key["expired"] else str(until)
