"""`knowhub keys` beside a server that requires keys, and requests without a key."""

from urllib.parse import urlsplit

import httpx
import pytest

from tests.e2e.command_line import Cli
from tests.e2e.server_process import read_start_messages, run_server
from tests.keys import ROOT_KEY

ASKING = {"KNOWHUB_AUTH": "api-key"}


def status(url: str, key: str) -> int:
    return httpx.get(f"{url}/api/knowledge", headers={"X-API-Key": key}).status_code


def test_a_key_is_made_listed_replaced_and_ended_beside_a_running_server(cli: Cli) -> None:
    with run_server(cli.data, **ASKING) as server:
        made = cli("keys", "create", "--user-id", "li", "--agent-id", "爬虫", "--team-id", "web", "--team-id", "ops")
        key = made.out.strip()
        listed = cli("keys", "list")
        key_id = made.err.partition(":")[0]

        assert (made.code, len(made.out.splitlines())) == (0, 1)
        assert "user:li, agent:爬虫, team:web, team:ops, writer in account default" in made.err
        assert (key_id in listed.out, "no end" in listed.out) == (True, True)
        assert key not in listed.out
        assert status(server.url, key) == 200
        new = cli.json("keys", "rotate", key_id)
        assert (status(server.url, key), status(server.url, new["key"])) == (401, 200)
        assert cli("keys", "revoke", new["key_id"]).out == f"revoked {new['key_id']}\n"
        assert cli("keys", "revoke", new["key_id"]).out == f"{new['key_id']} was revoked before\n"
        assert status(server.url, new["key"]) == 401
    assert [result["replaced_by"] for result in cli.json("keys", "list")["results"]] == [new["key_id"], None]


def test_keys_are_made_before_there_is_a_directory_and_listed_by_account(cli: Cli) -> None:
    made = cli.json("keys", "create", "--user-id", "li", "--account", "acme", "--role", "reader")

    assert (made["account"], made["role"], made["replaces"]) == ("acme", "reader", None)
    assert [result["key_id"] for result in cli.json("keys", "list")["results"]] == [made["key_id"]]
    assert cli.json("keys", "list", "--account", "default")["count"] == 0


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("create",), 1, "user_id"),
        (("create", "--user-id", "li", "--role", "root"), 2, "--role: Input should be 'reader', 'writer' or 'admin'"),
        (("create", "--user-id", "li", "--expires-at", "soon"), 2, "--expires-at"),
        (("create", "--user-id", "li", "--account", ""), 2, "--account"),
        (("create", "--user-id", "li", "--team-id", ""), 2, "--team-id"),
        (("rotate", "key-1"), 1, "no key with id 'key-1'"),
        (("revoke", "key-1"), 1, "no key with id 'key-1'"),
    ],
)
def test_wrong_arguments_of_keys_are_refused_by_name(cli: Cli, words: tuple[str, ...], code: int, error: str) -> None:
    cli.json("keys", "create", "--user-id", "chen")

    ended = cli("keys", *words)

    assert ended.code == code
    assert error in ended.err
    assert ended.out == ""
    assert cli.json("keys", "list")["count"] == 1


def test_a_server_without_any_key_says_how_to_create_one(cli: Cli) -> None:
    result = read_start_messages(cli.data, **ASKING)
    cli.json("keys", "create", "--user-id", "li")

    assert "knowhub keys create" in result
    assert "no_key_yet" not in read_start_messages(cli.data, **ASKING)
    assert "no_key_yet" not in read_start_messages(cli.data.parent / "other", **ASKING, KNOWHUB_ROOT_KEY=ROOT_KEY)


def test_a_server_that_asks_for_keys_listens_beyond_loopback(cli: Cli) -> None:
    with run_server(cli.data, **ASKING, KNOWHUB_HOST="0.0.0.0", KNOWHUB_ROOT_KEY=ROOT_KEY) as server:  # noqa: S104 -- that
        url = f"http://127.0.0.1:{urlsplit(server.url).port}"

        assert status(url, ROOT_KEY) == 200
        assert status(url, "forged") == 401
