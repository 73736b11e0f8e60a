"""docs/tutorial/*.md, run as they are written: every command, against a real server, and what it prints."""

import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.forking import variables_for_scripts
from tests.e2e.server_process import ROOT, environment

# Two dozen commands on a tree of 493 keywords.
SLOW = {"keyword-tree"}
TUTORIALS = [
    pytest.param(page, id=page.stem, marks=[pytest.mark.nightly] if page.stem in SLOW else [])
    for page in sorted((ROOT / "docs/tutorial").glob("*.md"))
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Ids differ with each run. Newer versions of jq print 4.0 where older ones print 4.
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|knowledge-\d{8}-[0-9a-f]{4,}")
WHOLE_FLOAT = re.compile(r"(?<=\d)\.0\b(?!\.)")
PORTS = ("8000", "8001")
GAP = "…"
END_OF_BLOCK = "==== end of a block ===="
TIMEOUT_S = 300
# Half a second between two saves decides which record is newer. Who reads the page takes longer than that.
PAUSED_AFTER = "> expect.json"


def steps(text: str) -> list[tuple[str, str | None]]:
    """Return each block of commands with the block that shows what they print, None where none follows."""
    blocks = [(kind, body) for kind, body in BLOCK.findall(text)]
    following = [*blocks[1:], ("sh", "")]
    return [
        (body, None if next_kind else expected)
        for (kind, body), (next_kind, expected) in zip(blocks, following, strict=True)
        if kind == "sh"
    ]


def is_as_shown(printed: str, expected: str) -> bool:
    """Return whether a text is as a page shows it: a `…` alone is any lines, one within a line any characters."""
    lines = []
    for line in normalise(expected).splitlines():
        if line == GAP:
            lines.append(r"(?:.*\n)*")
        else:
            lines.append("[^\n]*".join(map(re.escape, line.split(GAP))) + "\n")
    whole = printed if not printed or printed.endswith("\n") else f"{printed}\n"
    return re.fullmatch("".join(lines), normalise(whole)) is not None


def normalise(text: str) -> str:
    return WHOLE_FLOAT.sub("", ID.sub("ID", text))


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def processes_in(folder: Path) -> list[str]:
    """Return the commands of the processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_bytes().decode().replace("\0", " "))
        except OSError:
            continue  # It ended meanwhile, or is another user's.
    return found


def wait_until_none_is_left(folder: Path) -> None:
    """Wait for the watchdog of a server, which ends right after the server."""
    deadline = time.monotonic() + 10
    while processes_in(folder) and time.monotonic() < deadline:
        time.sleep(0.1)


@pytest.mark.parametrize("page", TUTORIALS)
def test_a_tutorial_runs_as_it_is_written(page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    missing = [program for program in ("bash", "curl", "jq") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"the tutorials need {', '.join(missing)}")
    ports = {port: free_port() for port in PORTS}
    page_port = {used: port for port, used in ports.items()}
    known = steps(page.read_text(encoding="utf-8"))
    pauses = ["sleep 1\n" if PAUSED_AFTER in typed else "" for typed, _ in known]
    script = "".join(
        f"{typed}\n{pause}echo '{END_OF_BLOCK}'\n" for (typed, _), pause in zip(known, pauses, strict=True)
    )
    # The programs of the environment are found already, `knowhub` among them.
    script = script.replace('PATH="$PWD/.venv/bin:$PATH"', 'PATH="$PATH"')
    variables = environment(tmp_path, KNOWHUB_PORT=ports["8000"], TMPDIR=str(tmp_path))
    del variables["KNOWHUB_DATA_DIR"], variables["KNOWHUB_OWNER"]
    variables |= variables_for_scripts(tmp_path_factory.mktemp("bin"))
    before = set(ROOT.iterdir())

    done = subprocess.run(
        ["bash", "-u"],
        input=re.sub(r"\b800[01]\b", lambda port: ports[port[0]], script).encode(),
        cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    printed = done.stdout.decode().split(f"{END_OF_BLOCK}\n")

    assert len(printed) == len(known) + 1
    for (typed, expected), block in zip(known, printed, strict=False):
        as_on_page = re.sub("|".join(ports.values()), lambda used: page_port[used[0]], block)
        assert is_as_shown(as_on_page, expected or ""), (typed, as_on_page)
    assert len(known) >= 8
    wait_until_none_is_left(tmp_path)
    assert processes_in(tmp_path) == []
    assert set(ROOT.iterdir()) == before


@pytest.mark.parametrize(
    ("printed", "expected", "fits"),
    [
        ("a\nb\nc\n", "a\n…\nc\n", True),
        ("a\nc\n", "a\n…\nc\n", True),
        ("a\nb\n", "a\n…\nc\n", False),
        ("a 12 b\n", "a … b\n", True),
        ("a\nb\n", "a …\n", False),
        ("a\nb\n", "a\n", False),
        ("", "", True),
        ("x\n", "", False),
        ("[4]", "[4.0]\n", True),
        ("knowledge-20261122-6c74\n", "knowledge-20261121-11b5\n", True),
    ],
)
def test_printed_text_is_compared_with_the_page(printed: str, expected: str, fits: bool) -> None:
    assert is_as_shown(printed, expected) is fits


def test_commands_are_parsed_with_their_output() -> None:
    page = "```sh\na\n```\ntext\n```\nprints\n```\n```sh\nb\n```\n```sh\nc\n```\n```console\n$ d\n```\n"

    assert steps(page) == [("a\n", "prints\n"), ("b\n", None), ("c\n", None)]
