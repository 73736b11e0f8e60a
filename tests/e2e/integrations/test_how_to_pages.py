"""docs/how-to/use-*.md of the integrations, run as they are written, with scripted models and a real server."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.integrations.model_answers import Answer, answering, anthropic, openai_response
from tests.e2e.integrations.pages import read_program
from tests.e2e.server_process import ROOT, environment, serving

FILE = {
    "command": "create",
    "path": "/memories/website_a.md",
    "file_text": "Wait 2 s before the login of website_a.\n",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A page, what its model answers, and what the model must have been sent in the end."""

    name: str
    answers: tuple[Answer, ...] = ()
    sent: str = ""


PAGES = [
    Page(
        "use-anthropic-memory-tool",
        (
            anthropic({"type": "tool_use", "id": "toolu_1", "name": "memory", "input": FILE}),
            anthropic({"type": "text", "text": "I have noted it."}),
        ),
        sent="File created successfully at: /memories/website_a.md",
    ),
    Page("use-langgraph"),
    Page(
        "use-openai-agents",
        (openai_response("website_a needs one."), openai_response("Two seconds.")),
        sent="website_a needs one.",
    ),
]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])
def test_a_page_runs_as_it_is_written(page: Page, tmp_path: Path) -> None:
    program, printed = read_program(page.name)
    with serving(tmp_path / "data") as server, answering(page.answers) as (model, asked):
        variables = {
            "KNOWHUB_API_URL": server.url,
            "ANTHROPIC_BASE_URL": model,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_BASE_URL": f"{model}/v1",
            "OPENAI_API_KEY": "none",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, text=True, timeout=90, check=False, cwd=ROOT,
            env=environment(tmp_path, **variables),
        )  # fmt: skip

    assert done.stdout == printed, done.stderr
    assert len(asked) == len(page.answers)
    assert page.sent in str(asked[-1:])
