"""docs/tutorial/memories.md, followed: every command is run, and what it prints is what the page shows."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.server_process import ROOT, environment

PAGE = ROOT / "docs/tutorial/memories.md"
BLOCK = re.compile(r"^```(sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPERATION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GAP = "…"


def steps(text: str) -> list[tuple[str, str | None]]:
    """Return each block of commands with the block that shows what they print, None where none follows."""
    blocks = [(kind == "sh", body) for kind, body in BLOCK.findall(text)]
    followed = [*blocks[1:], (True, "")]
    return [
        (body, None if is_next_shell else shown)
        for (is_shell, body), (is_next_shell, shown) in zip(blocks, followed, strict=True)
        if is_shell
    ]


def is_as_shown(printed: str, shown: str) -> bool:
    """Tell whether a text is as a page shows it: a `…` alone is any lines, one within a line any characters."""
    lines = []
    for line in shown.splitlines():
        if line.strip() == GAP and line == GAP:
            lines.append(r"(?:.*\n)*")
        else:
            lines.append("[^\n]*".join(map(re.escape, line.split(GAP))) + "\n")
    whole = printed if not printed or printed.endswith("\n") else f"{printed}\n"
    return re.fullmatch("".join(lines), OPERATION.sub("ID", whole)) is not None


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    command = f"{shlex.quote(sys.executable)} -m knowhub"
    variables = {name: value for name, value in environment(tmp_path).items() if name != "KNOWHUB_DATA_DIR"}
    real: dict[str, str] = {}
    ran = 0

    prepared = ""
    for typed, shown in steps(PAGE.read_text(encoding="utf-8")):
        prepared += "".join(f"{line}\n" for line in typed.splitlines() if line.startswith("export "))
        script = typed.replace(".venv/bin/knowhub", command)
        for id_on_page, id_here in real.items():
            script = script.replace(id_on_page, id_here)
        done = subprocess.run(
            ["/bin/sh", "-euc", prepared + script],
            cwd=tmp_path, env=variables, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        printed = done.stdout.decode()
        assert (done.returncode, done.stderr) == (0, b""), (typed, done.stderr.decode())
        assert is_as_shown(printed, OPERATION.sub("ID", shown or "")), (typed, printed)
        real |= dict(zip(OPERATION.findall(shown or ""), OPERATION.findall(printed), strict=False))
        ran += 1

    assert ran >= 10
    assert not list(tmp_path.glob("memories/context/*/users/chen.*/sessions/*/content.md"))
    assert len(list(tmp_path.glob("memories/context/*/users/maria.*/sessions/*/content.md"))) == 1


@pytest.mark.parametrize(
    ("printed", "shown", "fits"),
    [
        ("a\nb\nc\n", "a\n…\nc\n", True),
        ("a\nc\n", "a\n…\nc\n", True),
        ("a\nb\n", "a\n…\nc\n", False),
        ("a 12 b\n", "a … b\n", True),
        ("a\nb\n", "a …\n", False),
        ("a\nb\n", "a\n", False),
        ("", "", True),
        ("x\n", "", False),
    ],
)
def test_what_is_printed_is_held_against_what_is_shown(printed: str, shown: str, fits: bool) -> None:
    assert is_as_shown(printed, shown) is fits


def test_commands_are_found_with_what_they_print() -> None:
    page = "```sh\na\n```\ntext\n```\nprints\n```\n```sh\nb\n```\n```sh\nc\n```\n"

    assert steps(page) == [("a\n", "prints\n"), ("b\n", None), ("c\n", None)]
