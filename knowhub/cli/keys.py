"""`knowhub keys`: create, list, rotate and revoke API keys, and rotate the master key. A server may be running."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from knowhub.cli import output
from knowhub.cli.hub_access import run_on_hub, run_route
from knowhub.cli.options import CommonOptions, expand_options
from knowhub.core.request_context import DEFAULT_ACCOUNT, Role

app = typer.Typer(help="Manage API keys (KNOWHUB_AUTH=api-key) and the master key.", no_args_is_help=True)

KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="The id of a key, as `knowhub keys list` shows it.")]


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """The holder and the rights of a new key."""

    user_id: Annotated[str | None, typer.Option(help="The user who holds the key; or use --agent-id.")] = None
    agent_id: Annotated[str | None, typer.Option(help="The agent that holds the key and owns what it saves.")] = None
    role: Annotated[str, typer.Option(metavar="reader|writer|admin", help="What the holder may do.")] = (
        Role.WRITER.value
    )
    project_ids: Annotated[list[str], typer.Option("--project-id", help="Can be repeated.")] = field(
        default_factory=list
    )
    team_ids: Annotated[list[str], typer.Option("--team-id", help="Can be repeated.")] = field(default_factory=list)
    org_ids: Annotated[list[str], typer.Option("--org-id", help="Can be repeated.")] = field(default_factory=list)
    expires_at: Annotated[str | None, typer.Option(help="The key is invalid from this time on (ISO 8601).")] = None
    account: Annotated[str, typer.Option(help="The account that the key belongs to.")] = DEFAULT_ACCOUNT


@app.command("create")
@expand_options
def create(holder: KeyOptions, options: CommonOptions) -> None:
    """Create a key and print it. It is shown only now: the directory stores its hash."""
    names = {"project_ids": "--project-id", "team_ids": "--team-id", "org_ids": "--org-id"}
    key = run_route(options, "admin.create_key", asdict(holder), create=True, option_names=names)
    _print_key(key, options)


@app.command("list")
@expand_options
def list_keys(
    options: CommonOptions, account: Annotated[str | None, typer.Option(help="Only keys of this account.")] = None
) -> None:
    """List the keys, the oldest first. Expired and revoked keys are included."""
    page = run_route(options, "admin.list_keys", {"account": account})
    columns: dict[str, Callable[[Mapping[str, Any]], object]] = {
        "key": lambda key: key["key_id"],
        "account": lambda key: key["account"],
        "holder": _holder,
        "role": lambda key: key["role"],
        "until": _validity,
        "last used": lambda key: key["last_used_at"] or "",
    }
    output.print_page(page["results"], columns, as_json=options.as_json)


@app.command("rotate")
@expand_options
def rotate(key_id: KeyId, options: CommonOptions) -> None:
    """Replace a key and print the new one. The old key is invalid at once."""
    _print_key(run_route(options, "admin.rotate_key", in_path={"key_id": key_id}), options)


@app.command("revoke")
@expand_options
def revoke(key_id: KeyId, options: CommonOptions) -> None:
    """Revoke a key at once. This cannot be undone."""
    revoked = run_route(options, "admin.revoke_key", in_path={"key_id": key_id})
    line = f"revoked {key_id}" if revoked["operation_id"] is not None else f"{key_id} was revoked before"
    output.print_answer(revoked, line, as_json=options.as_json)


@app.command("rotate-master")
@expand_options
def rotate_master(options: CommonOptions) -> None:
    """Wrap the keys of all sealed resources with a new master key. Run it again if it was interrupted.

    If KNOWHUB_SECRET_KEY is set, it is the new key; KNOWHUB_SECRET_KEY_OLD or the key file opens what was sealed
    before. Otherwise a new key file replaces the old one.
    """
    result = run_on_hub(options, lambda hub, _: hub.vault.rotate())
    line = f"rotated  {result.rewrapped} of {result.keys} keys; the master key is now {result.master}"
    output.print_answer(result, line, as_json=options.as_json)


def _print_key(key: dict[str, Any], options: CommonOptions) -> None:
    if options.as_json:
        output.print_json(key)
        return
    # stdout has the key alone, so that a script can read it.
    output.say(key["key"])
    output.warn(f"{key['key_id']}: {_holder(key)}, {key['role']} in account {key['account']}; it is shown only now")


def _holder(key: Mapping[str, Any]) -> str:
    ids = [f"{kind}:{key[f'{kind}_id']}" for kind in ("user", "agent") if key[f"{kind}_id"] is not None]
    return ", ".join([*ids, *(f"{kind}:{item}" for kind in ("project", "team", "org") for item in key[f"{kind}_ids"])])


def _validity(key: Mapping[str, Any]) -> str:
    if key["revoked_at"] is not None:
        return f"revoked {key['revoked_at']}"
    until = key["expires_at"] or "no end"
    return f"expired {until}" if key["expired"] else str(until)
