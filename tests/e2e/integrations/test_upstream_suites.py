"""Suites of frameworks that are too large for the test environment, in an environment of their own."""

import re
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.e2e.fake_models import running_models
from tests.e2e.integrations.pages import read_program
from tests.e2e.server_process import ROOT, environment, run_server

PACKAGES = (
    "agent-framework-core==1.23.0",
    "claude-agent-sdk==0.2.187",
    "langchain-tests==1.1.9",
    "strands-agents==1.62.0",
    "google-adk==2.13.0",
)
SUITES = {
    "claude_sessions.py": 3,
    "langchain_suite.py": 33,
    "strands_suite.py": 4,
    "adk_suite.py": 2,
    "agent_framework_suite.py": 3,
}
CONFIG = "[pytest]\nasyncio_mode = auto\npython_files = *.py\n"
PASSED = re.compile(r"(\d+) passed")

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with the packages, on top of the environment of the tests."""
    folder: Path = tmp_path_factory.mktemp("upstream")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    own = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    Path(own, "tests.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n", "utf-8")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True, timeout=900)
    return python


@pytest.mark.parametrize(("suite", "tests"), SUITES.items())
def test_a_suite_passes(suite: str, tests: int, python: Path, tmp_path: Path) -> None:
    config = tmp_path / "pytest.ini"
    config.write_text(CONFIG, "utf-8")
    file = ROOT / "tests/e2e/integrations/upstream" / suite
    with run_server(tmp_path / "data") as server:
        done = subprocess.run(
            [python, "-m", "pytest", "-q", "-c", config, "--rootdir", tmp_path, "--noconftest", file],
            capture_output=True, text=True, timeout=600, check=False, cwd=ROOT,
            env=environment(tmp_path, KNOWHUB_API_URL=server.url),
        )  # fmt: skip

    passed = PASSED.search(done.stdout)
    assert done.returncode == 0, done.stdout
    assert passed is not None
    assert int(passed[1]) >= tests
    assert "skipped" not in done.stdout


def test_claude_resumes_a_session_as_the_page_says(python: Path, tmp_path: Path) -> None:
    program, printed = read_program("use-claude-agent-sdk")
    home = tmp_path / "home"
    home.mkdir()
    variables = {"ANTHROPIC_API_KEY": "none", "HOME": str(home), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    with run_server(tmp_path / "data") as server, running_models() as models:
        done = subprocess.run(
            [python, "-c", program],
            capture_output=True, text=True, timeout=300, check=False, cwd=home,
            env=environment(tmp_path, KNOWHUB_API_URL=server.url, ANTHROPIC_BASE_URL=models.url, **variables),
        )  # fmt: skip

    assert done.stdout == printed, done.stderr
    # The second request has the first question: it came out of the store.
    assert "website_a needs a pause" in models.asked[-1]


@pytest.mark.parametrize("page", ["use-agent-framework", "use-google-adk", "use-strands"])
def test_a_page_on_a_memory_runs_as_it_is_written(page: str, python: Path, tmp_path: Path) -> None:
    program, printed = read_program(page)
    with run_server(tmp_path / "data") as server:
        done = subprocess.run(
            [python, "-W", "ignore", "-c", program],
            capture_output=True, text=True, timeout=120, check=False, cwd=ROOT,
            env=environment(tmp_path, KNOWHUB_API_URL=server.url),
        )  # fmt: skip

    assert done.stdout == printed, done.stderr
