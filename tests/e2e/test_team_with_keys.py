"""`docs/how-to/set-up-a-team.md`, followed to the letter: its commands are run, its requests sent, in their order."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import httpx
import pytest

from tests.e2e.command_line import Cli
from tests.e2e.server_process import ROOT, run_server

PAGE = ROOT / "docs/how-to/set-up-a-team.md"
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
ASSIGNED = re.compile(r"^(?:export )?(\w+)=(.*)$", re.DOTALL)
KEY_ID = re.compile(r"key-[0-9a-f]{16}")
SECRET = "shop-bot / correct-horse"
TIMEOUT_S = 60
# What the page makes with openssl; a test that fails shows the same each time.
VARIABLES = {
    "KNOWHUB_AUTH": "api-key",
    "KNOWHUB_ROOT_KEY": "6" * 64,
    "KNOWHUB_SECRET_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
}


@dataclass
class Follower:
    """Does what the page says, section by section; `variables` are those that its shell would have by then."""

    data: Path
    sections: dict[str, list[str]]
    variables: dict[str, str] = field(default_factory=dict)
    followed: list[str] = field(default_factory=list)

    def commands(self, section: str) -> list[str]:
        """Return the commands of a section, each once."""
        self.followed.append(section)
        return self.sections[section]

    def run(self, command: str) -> str:
        """Run a `knowhub` command as a process of its own, and return what it prints."""
        program, *words = shlex.split(command)
        assert program == "knowhub"
        done = Cli(self.data, TIMEOUT_S)(*words, stdin=b"", **VARIABLES)
        assert done.code == 0, done.err
        return done.out

    def make_keys(self) -> None:
        """Run each command that makes a key, and keep what it prints under the name that the page gives it."""
        *making, serve = self.commands("Make four keys and start")
        assert (len(making), serve) == (4, "knowhub serve")
        for command in making:
            name, text = get_assigned_name(command)
            self.variables[name] = self.run(text.removeprefix("$(").removesuffix(")")).strip()

    def send(self, section: str) -> list[httpx.Response]:
        """Send each request of a section, taking up what it sets on the way, and return the answers."""
        answers = []
        for command in self.commands(section):
            if ASSIGNED.match(command):
                name, text = get_assigned_name(command)
                self.variables.setdefault(name, text)
            else:
                answers.append(self.request(command))
        return answers

    def request(self, command: str) -> httpx.Response:
        """Send what a `curl` command would."""
        words = shlex.split(Template(command).substitute(self.variables))
        assert words[:2] == ["curl", "-s"], command
        url, headers, body = words[2], {}, None
        for option, value in zip(words[3::2], words[4::2], strict=True):
            if option == "-H":
                name, _, text = value.partition(": ")
                headers[name] = text
            else:
                assert option == "-d", command
                body = value
        return httpx.request(
            "GET" if body is None else "POST", url, headers=headers, content=body, timeout=TIMEOUT_S, trust_env=False
        )


def get_assigned_name(command: str) -> tuple[str, str]:
    found = ASSIGNED.match(command)
    assert found is not None, command
    return found[1], found[2].strip("'")


def page_sections(text: str) -> dict[str, list[str]]:
    """Return the commands of each section of a page that has any."""
    _, *parts = SECTION.split(text)
    found = {title: list(commands_in(part)) for title, part in zip(parts[::2], parts[1::2], strict=True)}
    return {title: commands for title, commands in found.items() if commands}


def commands_in(part: str) -> Iterator[str]:
    """Yield the commands of a section; one goes on over several lines as long as its quotation is open."""
    for block in BLOCK.findall(part):
        held: list[str] = []
        for line in block.splitlines():
            held.append(line)
            if "\n".join(held).count("'") % 2 == 0:
                yield "\n".join(held)
                held = []
        assert held == [], block


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path / "data", page_sections(PAGE.read_text(encoding="utf-8")))


def results(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def test_a_team_of_two_people_and_two_agents_works_as_the_page_says(follower: Follower) -> None:
    exported = dict(map(get_assigned_name, follower.commands("Choose the two secrets")))
    assert exported.keys() == {*VARIABLES, "KNOWHUB_DATA_DIR"}
    follower.make_keys()

    with run_server(follower.data, **VARIABLES) as server:
        follower.variables["HUB"] = server.url
        assert httpx.get(f"{server.url}/api/knowledge", trust_env=False).status_code == 401
        check_sharing(follower)
        check_privacy(follower)
        check_credential(follower)
        check_audit(follower)
        check_revoking(follower)

    assert set(follower.followed) == follower.sections.keys()
    # The sealed text is in no file.
    held = [path for path in follower.data.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert held == []


def check_sharing(team: Follower) -> None:
    saved, found = team.send("Share a record")

    assert saved.status_code == 201, saved.text
    assert [(result["id"], result["owner"]) for result in results(found)] == [(saved.json()["id"], "user:li")]
    elsewhere = {"content": "x", "scopes": ["team:finance"]}
    key = {"X-API-Key": team.variables["CRAWLER"]}
    refused = httpx.post(f"{team.variables['HUB']}/api/knowledge", json=elsewhere, headers=key, trust_env=False)
    assert refused.status_code == 403, refused.text


def check_privacy(team: Follower) -> None:
    saved, own, others = team.send("Keep a record private")

    assert (saved.status_code, saved.json()["owner"]) == (201, "user:wang")
    assert ([result["id"] for result in results(own)], results(others)) == ([saved.json()["id"]], [])
    key = {"X-API-Key": team.variables["CRAWLER"]}
    by_id = [
        httpx.get(f"{team.variables['HUB']}/api/knowledge/{item}", headers=key, trust_env=False)
        for item in (saved.json()["id"], "knowledge-20200101-0000")
    ]
    assert [answer.status_code for answer in by_id] == [404, 404]


def check_credential(team: Follower) -> None:
    saved, revealed, seen, refused = team.send("Share a password")

    assert [answer.status_code for answer in (saved, revealed, seen, refused)] == [201, 200, 200, 403]
    assert revealed.json()["secure_body"] == SECRET
    assert seen.json()["has_secure_body"] is True
    assert all(SECRET not in answer.text for answer in (saved, seen, refused))


def check_audit(team: Follower) -> None:
    (output,) = team.send("See who did what")

    assert [(result["op"], result["actor"]) for result in results(output)] == [
        ("reveal_resource", "agent:crawler"),
        ("save_resource", "agent:crawler"),
    ]


def check_revoking(team: Follower) -> None:
    listing, revoking = team.commands("Take a key away")
    key = {"X-API-Key": team.variables["CRAWLER"]}
    # A key names itself: kh_<the id's digits>_<its secret>.
    key_id = f"key-{key['X-API-Key'].split('_')[1]}"
    before = httpx.get(f"{team.variables['HUB']}/api/knowledge", headers=key, trust_env=False)

    listed = team.run(listing)
    team.run(KEY_ID.sub(key_id, revoking))

    after = httpx.get(f"{team.variables['HUB']}/api/knowledge", headers=key, trust_env=False)
    assert (before.status_code, after.status_code) == (200, 401)
    assert key["X-API-Key"] not in listed
    assert key_id in listed


def test_a_command_of_several_lines_is_read_as_one() -> None:
    page = "## One\n\n```sh\na='x\ny'\ncurl -s u -d '{\n}'\n```\n\n## Two\n\ntext\n"

    assert page_sections(page) == {"One": ["a='x\ny'", "curl -s u -d '{\n}'"]}
