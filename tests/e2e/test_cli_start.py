"""`knowhub --help` and `--version` are fast: they load little, and cost about as much as a bare typer program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from knowhub.cli.main import COMMANDS, load_command
from tests.e2e.command_line import COMMAND

HEAVY = {"fastapi", "starlette", "uvicorn", "numpy", "structlog", "asyncio", "knowhub.bootstrap", "knowhub.settings"}
COMMAND_MODULES = {f"knowhub.cli.{entry.module}" for entry in COMMANDS.values()}

BARE = """
import typer
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
def show_version(is_asked: bool) -> None:
    if is_asked:
        print("bare 1.0")
        raise typer.Exit
@app.callback()
def bare(version: bool = typer.Option(False, "--version", is_eager=True, callback=show_version)) -> None:
    '''A program of two commands.'''
@app.command()
def save(content: str = "") -> None:
    '''Save.'''
@app.command()
def search(query: str) -> None:
    '''Search.'''
app()
"""

LOADED = """
import json, sys
from knowhub.cli.main import run
sys.argv = ["knowhub", *sys.argv[1:]]
try:
    run()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""


def list_loaded_modules(*words: str) -> set[str]:
    """Return the modules that the command loads."""
    ended = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, check=True, text=True)
    return set(json.loads(ended.stdout.splitlines()[-1]))


def cpu_of(command: list[str]) -> float:
    """Return the CPU seconds of a process, with those of the system for it."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    # wait4 has taken the status: the object must not wait for it once more.
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_load_no_command_and_nothing_heavy(word: str) -> None:
    assert list_loaded_modules(word) & {*HEAVY, *COMMAND_MODULES, "pydantic"} == set()


@pytest.mark.parametrize("words", [["save"], ["tree", "reorganize"], ["context", "commit"], ["doctor"], ["serve"]])
def test_the_help_of_a_command_does_not_load_the_server(words: list[str]) -> None:
    # Pydantic is there: typer itself uses it for the parameters of a command.
    assert list_loaded_modules(*words, "--help") & HEAVY == set()


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_cost_at_most_twice_a_bare_typer_program(tmp_path: Path, word: str) -> None:
    bare = tmp_path / "bare.py"
    bare.write_text(BARE, encoding="utf-8")
    # In turns, and the least of several: other processes of the machine only add to it.
    pairs = [(cpu_of([*COMMAND, word]), cpu_of([sys.executable, str(bare), word])) for _ in range(7)]

    assert min(ours for ours, _ in pairs) <= 2 * min(theirs for _, theirs in pairs)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_line_of_a_command_in_the_help_is_the_first_line_of_its_own_help(name: str) -> None:
    assert (load_command(name).help or "").splitlines()[0] == COMMANDS[name].summary


def test_a_command_starts_no_threads_for_products_of_matrices() -> None:
    """They spin on the cores that requests need, longer than a scan of vectors takes."""
    program = """
import os, sys
from knowhub.cli.main import run
sys.argv = ["knowhub", "--version"]
try:
    run()
except SystemExit:
    pass
import numpy
numpy.ones((1_000, 1_000)) @ numpy.ones((1_000, 1_000))
print(len(os.listdir("/proc/self/task")))
"""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.splitlines()[-1] == "1"
