"""`knowhub keys`: create, list, rotate and revoke API keys, and rotate the master key. A server may be running."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from knowhub.cli import output
from knowhub.cli.commands import Answer, Lines, command, route_command
from knowhub.cli.hub_access import run_on_hub
from knowhub.cli.options import CommonOptions
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
    project_ids: Annotated[list[str] | None, typer.Option("--project-id", help="Can be repeated.")] = None
    team_ids: Annotated[list[str] | None, typer.Option("--team-id", help="Can be repeated.")] = None
    org_ids: Annotated[list[str] | None, typer.Option("--org-id", help="Can be repeated.")] = None
    expires_at: Annotated[str | None, typer.Option(help="The key is invalid from this time on (ISO 8601).")] = None
    account: Annotated[str, typer.Option(help="The account that the key belongs to.")] = DEFAULT_ACCOUNT


@route_command(app, "create", "admin.create_key", common=CommonOptions, creates=lambda _: True)
def create(key: Answer, holder: KeyOptions) -> Lines:
    """Create a key and print it. It is shown only now: the directory stores its hash."""
    return _list_key(key)


@route_command(app, "list", "admin.list_keys", common=CommonOptions)
def list_keys(
    page: Answer, account: Annotated[str | None, typer.Option(help="Only keys of this account.")] = None
) -> Lines:
    """List the keys, the oldest first. Expired and revoked keys are included."""
    columns: output.Columns = {
        "key": "key_id",
        "account": "account",
        "holder": _format_holder,
        "role": "role",
        "until": _format_validity,
        "last used": lambda key: key["last_used_at"] or "",
    }
    return output.list_page(page, columns)


@route_command(app, "rotate", "admin.rotate_key", common=CommonOptions)
def rotate(key: Answer, key_id: KeyId) -> Lines:
    """Replace a key and print the new one. The old key is invalid at once."""
    return _list_key(key)


@route_command(app, "revoke", "admin.revoke_key", common=CommonOptions)
def revoke(revoked: Answer, key_id: KeyId) -> Lines:
    """Revoke a key at once. This cannot be undone."""
    yield f"revoked {key_id}" if revoked["operation_id"] is not None else f"{key_id} was revoked before"


@command(app, "rotate-master")
def rotate_master(options: CommonOptions) -> None:
    """Wrap the keys of all sealed resources with a new master key. Run it again if it was interrupted.

    If KNOWHUB_SECRET_KEY is set, it is the new key; KNOWHUB_SECRET_KEY_OLD or the key file opens what was sealed
    before. Otherwise a new key file replaces the old one.
    """
    result = run_on_hub(options, lambda hub, _: hub.vault.rotate())
    line = f"rotated  {result.rewrapped} of {result.keys} keys; the master key is now {result.master}"
    output.print_answer(result, [line], as_json=options.as_json)


def _list_key(key: Answer) -> Lines:
    # stdout has the key alone, so that a script can read it.
    yield key["key"]
    output.warn(
        f"{key['key_id']}: {_format_holder(key)}, {key['role']} in account {key['account']}; it is shown only now"
    )


def _format_holder(key: Answer) -> str:
    ids = [f"{kind}:{key[f'{kind}_id']}" for kind in ("user", "agent") if key[f"{kind}_id"] is not None]
    return ", ".join([*ids, *(f"{kind}:{item}" for kind in ("project", "team", "org") for item in key[f"{kind}_ids"])])


def _format_validity(key: Answer) -> str:
    if key["revoked_at"] is not None:
        return f"revoked {key['revoked_at']}"
    until = key["expires_at"] or "no end"
    return f"expired {until}" if key["expired"] else str(until)
