"""`knowhub resource` and `knowhub keys rotate-master`, as a person and an agent use them."""

from pathlib import Path

from tests.e2e.command_line import Cli
from tests.sealing import find_texts_in_files

SECRET = "密码：SecurePass123"
ID = "credentials/website_a"


def test_a_secret_is_read_from_stdin_sealed_revealed_and_erased(cli: Cli) -> None:
    made = cli(
        *("resource", "save", ID, "--title", "账号", "--body", "log in", "--content-type", "credential"),
        *("--secure-file", "-", "--metadata", "acquired_at=2026-03-06", "--expires-at", "2026-03-07", "--json"),
        stdin=f"{SECRET}\n".encode(),
    )
    read = cli.json("resource", "get", ID)
    revealed = cli.json("resource", "get", ID, "--reveal")
    listed = cli.json("resource", "list", "--prefix", "credentials/", "--expired")
    table = cli("resource", "list")

    assert (made.code, made.json["has_secure_body"]) == (0, True)
    # The one warning that there is: the key was made here, and lies here only.
    assert "master_key_made" in made.err
    assert (read["metadata"], read["expired"], "secure_body" in read) == ({"acquired_at": "2026-03-06"}, True, False)
    assert revealed["secure_body"] == SECRET
    assert [result["id"] for result in listed["results"]] == [ID]
    assert ID in table.out
    assert "(expired)" in table.out
    assert "SecurePass" not in made.out + table.out

    erased = cli("resource", "delete", ID, "--erase")

    assert erased.out == f"erased  {ID}\n"
    assert cli("resource", "get", ID).code == 1
    assert find_texts_in_files(cli.data, ["SecurePass123"]) == []
    assert '"wrapped"' not in (cli.data / "keys/keyring.json").read_text()


def test_a_deletion_is_undone_and_an_existing_id_needs_upsert(cli: Cli, tmp_path: Path) -> None:
    body = tmp_path / "login.py"
    body.write_text("driver = uc.Chrome()\n")
    cli.json("resource", "save", "code/login", "--body-file", str(body), "--content-type", "code")

    taken = cli("resource", "save", "code/login", "--body", "x")
    again = cli.json("resource", "save", "code/login", "--body", "x", "--upsert")
    deleted = cli.json("resource", "delete", "code/login")
    cli.json("undo", deleted["operation_id"])

    assert (taken.code, taken.err) == (1, "knowhub: resource id 'code/login' is taken\n")
    assert again["version"] == 2
    assert cli.json("resource", "get", "code/login")["body"] == "x"


def test_a_record_with_a_missing_resource_warns(cli: Cli) -> None:
    saved = cli("save", "--content", "use it", "--resource", "credentials/none")

    assert saved.code == 0
    assert saved.err == "these resources do not exist: credentials/none\n"


def test_the_master_key_is_rotated_and_everything_opens_on(cli: Cli) -> None:
    for number in range(2):
        cli("resource", "save", f"a/{number}", "--secure-file", "-", stdin=f"secret {number}".encode())
    before = (cli.data / "keys/master.key").read_text()

    done = cli.json("keys", "rotate-master")
    result = cli("keys", "rotate-master")

    assert (done["keys"], done["rewrapped"]) == (2, 2)
    assert result.out.startswith("rotated  2 of 2 keys; the master key is now master-")
    assert (cli.data / "keys/master.key").read_text() != before
    revealed = [cli.json("resource", "get", f"a/{number}", "--reveal")["secure_body"] for number in range(2)]
    assert revealed == ["secret 0", "secret 1"]


def test_a_key_in_the_environment_takes_over_from_the_file(cli: Cli) -> None:
    cli("resource", "save", "a", "--secure-file", "-", stdin=b"sealed under the file")
    new = "a passphrase of more than thirty-two characters"

    rotated = cli("keys", "rotate-master", "--json", KNOWHUB_SECRET_KEY=new)
    (cli.data / "keys/master.key").unlink()

    assert rotated.json["rewrapped"] == 1
    assert (
        cli("resource", "get", "a", "--reveal", "--json", KNOWHUB_SECRET_KEY=new).json["secure_body"]
        == "sealed under the file"
    )
    lost = cli("resource", "get", "a", "--reveal")
    assert (lost.code, "KNOWHUB_SECRET_KEY" in lost.err) == (1, True)


def test_a_short_key_is_refused_and_not_repeated(cli: Cli) -> None:
    ended = cli("resource", "save", "a", KNOWHUB_SECRET_KEY="too-short-a-key")

    assert ended.code == 2
    assert "KNOWHUB_SECRET_KEY" in ended.err
    assert "too-short-a-key" not in ended.err
