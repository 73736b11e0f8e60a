"""docs/how-to/use-*.md of the integrations, run as they are written, with scripted models and a real server."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.integrations.model_answers import Answer, anthropic, openai_chat, openai_response, run_model
from tests.e2e.integrations.pages import read_program
from tests.e2e.server_process import ROOT, environment, run_server

FILE = {
    "command": "create",
    "path": "/memories/website_a.md",
    "file_text": "Wait 2 s before the login of website_a.\n",
}


@dataclass(frozen=True, slots=True)
class HowToPage:
    """A page, what its model answers, and what the model must have been sent in the end."""

    name: str
    answers: tuple[Answer, ...] = ()
    sent: str = ""
    heading: str = ""


NOTE = {"task": "log in at website_a", "content": "Wait 2 s before the login.", "types": ["strategy"]}
# As a model fills it in in strict mode: all parameters, pairs in place of an object.
STRICT_NOTE = NOTE | {"tags": [{"name": "site", "value": "website_a"}], "scopes": None, "source_name": None}
FOUND = "| content: Wait 2 s before the login."

PAGES = [
    HowToPage(
        "agents",
        (
            openai_chat(knowledge_save=STRICT_NOTE),
            openai_chat(knowledge_search={"query": "website_a", "top_k": 3, "types": None}),
            openai_chat("It is noted."),
        ),
        sent=FOUND,
        heading="### With OpenAI's SDK",
    ),
    HowToPage(
        "agents",
        (
            anthropic({"type": "tool_use", "id": "toolu_1", "name": "knowledge_save", "input": NOTE}),
            anthropic(
                {"type": "tool_use", "id": "toolu_2", "name": "knowledge_search", "input": {"query": "website_a"}}
            ),
            anthropic({"type": "text", "text": "It is noted."}),
        ),
        sent=FOUND,
        heading="### With Anthropic's SDK",
    ),
    HowToPage("use-langchain"),
    HowToPage(
        "use-pydantic-ai",
        (
            openai_chat(knowledge_save=NOTE),
            openai_chat(knowledge_search={"query": "website_a"}),
            openai_chat("Noted: wait 2 s before the login."),
        ),
        sent=FOUND,
    ),
    HowToPage(
        "use-anthropic-memory-tool",
        (
            anthropic({"type": "tool_use", "id": "toolu_1", "name": "memory", "input": FILE}),
            anthropic({"type": "text", "text": "I have noted it."}),
        ),
        sent="File created successfully at: /memories/website_a.md",
    ),
    HowToPage("use-langgraph"),
    HowToPage(
        "use-openai-agents",
        (openai_response("website_a needs one."), openai_response("Two seconds.")),
        sent="website_a needs one.",
    ),
]


@pytest.mark.parametrize("page", [pytest.param(page, id=f"{page.name} {page.heading}".strip()) for page in PAGES])
def test_a_page_runs_as_it_is_written(page: HowToPage, tmp_path: Path) -> None:
    program, printed = read_program(page.name, page.heading)
    with run_server(tmp_path / "data") as server, run_model(page.answers) as (model, asked):
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
