"""The documents, held to what they describe. Each check is shown a sample that breaks it: it can fail."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from knowhub.cli.main import COMMANDS, load_command
from knowhub.settings import Settings
from knowhub.web.app import create_app
from knowhub.web.schemas import keyword_answers as keywords
from knowhub.web.schemas import keywords as keyword_requests
from knowhub.web.schemas.knowledge_answers import KnowledgeRecord
from knowhub.web.schemas.parts import CallerIds

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
METHODS = {"get", "put", "post", "patch", "delete"}
FOLDERS = "knowhub|agent_tools|tests|docs|examples|benchmarks"
# CONTRIBUTING.md has a rule for it before it is built.
RULED_BEFOREHAND = {"knowhub/sdk"}

HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
CITATION = re.compile(r"`([\w./-]+\.py):([A-Za-z_][\w.]*)`")
NAMED_PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
VARIABLE = re.compile(r"KNOWHUB_[A-Z_]+[A-Z]")
OPTION = re.compile(r"--[a-z][a-z-]+")
TABLE_RULE = re.compile(r"^\|[ |:-]+\|$")


@dataclass(frozen=True, slots=True)
class DocsPage:
    """A document: its path and its text."""

    path: Path
    text: str

    @property
    def prose(self) -> str:
        """The text less its fenced blocks, which may show anything."""
        return FENCED.sub("", self.text)

    @property
    def headings(self) -> list[str]:
        return HEADING.findall(self.prose)


# ── the checks: each yields what is wrong ─────────────────────────────────────────────────────────────────────────


def find_differences(documented: set[str], existing: set[str]) -> Iterator[str]:
    """Say what exists without a heading, and which heading describes what does not exist."""
    for name in sorted(existing - documented):
        yield f"{name} has no heading"
    for name in sorted(documented - existing):
        yield f"{name} has a heading and does not exist"


def find_wrong_settings(page: DocsPage, existing: set[str]) -> Iterator[str]:
    yield from find_differences({heading for heading in page.headings if VARIABLE.fullmatch(heading)}, existing)


def find_wrong_routes(page: DocsPage, existing: set[str]) -> Iterator[str]:
    documented = {heading for heading in page.headings if heading.partition(" ")[0].lower() in METHODS}
    yield from find_differences(documented, existing)


def find_wrong_commands(page: DocsPage, existing: Mapping[str, set[str]]) -> Iterator[str]:
    """Look for each command's heading, and for each of its options below it or before the first command."""
    sections = sections_of(page)
    documented = {heading for heading in sections if heading.startswith("knowhub ")}
    yield from find_differences(documented, set(existing))
    shared = set(OPTION.findall(page.prose.partition("\n### ")[0]))
    for command in sorted(documented & set(existing)):
        named = shared | set(OPTION.findall(sections[command]))
        yield from (f"{command} {option} is named nowhere" for option in sorted(existing[command] - named))


def find_missing_fields(page: DocsPage, existing: set[str]) -> Iterator[str]:
    named = {code.strip("`") for code in CODE.findall(page.prose)}
    yield from (f"{page.path.name} does not name the field {field}" for field in sorted(existing - named))


def find_dangling_citations(page: DocsPage) -> Iterator[str]:
    for file, name in CITATION.findall(page.prose):
        if not (ROOT / file).is_file():
            yield f"{page.path.name}: there is no {file}"
        elif name not in list_names(ROOT / file):
            yield f"{page.path.name}: {file} has no {name}"


def find_missing_paths(page: DocsPage) -> Iterator[str]:
    for named in NAMED_PATH.findall(page.prose):
        if named not in RULED_BEFOREHAND and not (ROOT / named).exists():
            yield f"{page.path.name}: there is no {named}"


def find_untested_faults(page: DocsPage) -> Iterator[str]:
    """Check the table of faults: each row must name tests, and only tests."""
    rows = [line for line in page.text.splitlines() if line.startswith("|") and not TABLE_RULE.match(line)]
    if len(rows) < 2:
        yield f"{page.path.name} has no table of faults"
    for row in rows[1:]:
        fault, _, tests = row.strip("|").partition("|")
        cited = CITATION.findall(tests)
        if not cited:
            yield f"no test is named for: {fault.strip()}"
        yield from (f"{file}:{name} is no test" for file, name in cited if not name.startswith("test_"))


def find_broken_links(page: DocsPage) -> Iterator[str]:
    for target in LINK.findall(CODE.sub("", page.prose)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.path.parent / file).resolve() if file else page.path
        if file and not linked.exists():
            yield f"{page.path.name}: {target} leads nowhere"
        elif anchor and anchor not in anchors_of(page if linked == page.path else page_at(linked)):
            yield f"{page.path.name}: {target} names no heading"


# ── what exists ───────────────────────────────────────────────────────────────────────────────────────────────────


def list_names(file: Path) -> set[str]:
    """Return the functions, classes, methods and constants that a file defines, methods as `Class.method`."""
    return set(list_definitions(ast.parse(file.read_text(encoding="utf-8")).body, ""))


def list_definitions(body: list[ast.stmt], above: str) -> Iterator[str]:
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                yield above + name
                yield from list_definitions(node.body, f"{above}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield above + name
            case ast.Assign(targets=targets):
                yield from (above + target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield above + name
            case _:
                continue


def settings() -> set[str]:
    of_tools = VARIABLE.findall((ROOT / "agent_tools" / "client.py").read_text(encoding="utf-8"))
    return {f"KNOWHUB_{name.upper()}" for name in Settings.model_fields} | set(of_tools)


def routes() -> set[str]:
    paths: dict[str, dict[str, Any]] = create_app(Settings()).openapi()["paths"]
    return {f"{method.upper()} {path}" for path, operations in paths.items() for method in operations}


def commands() -> dict[str, set[str]]:
    return {
        f"knowhub {name}": {
            option for parameter in load_command(name).params for option in parameter.opts if option[:2] == "--"
        }
        for name in COMMANDS
    }


def requests_on_keywords() -> list[type[BaseModel]]:
    return [
        shape
        for name, shape in vars(keyword_requests).items()
        if isinstance(shape, type) and issubclass(shape, BaseModel) and shape.__module__ == keyword_requests.__name__
    ]


def sections_of(page: DocsPage) -> dict[str, str]:
    parts = HEADING.split(page.prose)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def anchors_of(page: DocsPage) -> set[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in page.headings}


def page_at(path: Path) -> DocsPage:
    return DocsPage(path, path.read_text(encoding="utf-8"))


def pages() -> list[DocsPage]:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
    return [page_at(path) for path in sorted(files)]


# ── the documents keep them ───────────────────────────────────────────────────────────────────────────────────────


def test_every_setting_has_a_heading_and_every_heading_a_setting() -> None:
    assert list(find_wrong_settings(page_at(REFERENCE / "settings.md"), settings())) == []


def test_every_route_has_a_heading_and_every_heading_a_route() -> None:
    assert list(find_wrong_routes(page_at(REFERENCE / "http-api.md"), routes())) == []


def test_every_command_has_a_heading_and_every_option_is_named() -> None:
    assert list(find_wrong_commands(page_at(REFERENCE / "cli.md"), commands())) == []


def test_every_field_of_a_record_is_named() -> None:
    assert list(find_missing_fields(page_at(REFERENCE / "record.md"), set(KnowledgeRecord.model_fields))) == []


@pytest.mark.parametrize(
    "shape",
    [
        keywords.KeywordRecord,
        keywords.InfoRecord,
        keywords.SavedLink,
        keywords.KeywordSearchAnswer,
        keywords.PlanAnswer,
        keywords.PlanSplit,
        keywords.TreeMetrics,
        keywords.FanOut,
    ],
)
def test_every_field_of_the_keyword_tree_is_named(shape: type[BaseModel]) -> None:
    fields = set(shape.model_fields) - {"operation_id"}

    assert list(find_missing_fields(page_at(REFERENCE / "keyword.md"), fields)) == []


def test_every_field_and_parameter_of_the_keyword_tree_is_named_beside_its_route() -> None:
    page = page_at(REFERENCE / "http-api.md")
    answers: list[type[BaseModel]] = [keywords.CreatedKeyword, keywords.CreatedInfo, keywords.AppliedPlan]

    for shape in requests_on_keywords() + answers:
        own = set(shape.model_fields) - set(CallerIds.model_fields) - set(keywords.KeywordRecord.model_fields)
        assert list(find_missing_fields(page, own)) == [], shape.__name__


def test_every_documented_fault_names_a_test() -> None:
    assert list(find_untested_faults(page_at(ROOT / "docs" / "explanation" / "durability.md"))) == []


@pytest.mark.parametrize(
    "check", [find_dangling_citations, find_missing_paths, find_broken_links], ids=lambda check: check.__name__
)
def test_every_citation_and_path_resolves(check: Callable[[DocsPage], Iterator[str]]) -> None:
    all_pages = pages()

    assert len(all_pages) > 10
    assert [wrong for page in all_pages for wrong in check(page)] == []


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in LINK.findall(page_at(ROOT / "README.md").text)}

    assert [
        page.path.name for page in pages() if (ROOT / "docs") in page.path.parents and page.path not in linked
    ] == []


# ── the checks can fail ───────────────────────────────────────────────────────────────────────────────────────────


def sample(text: str) -> DocsPage:
    return DocsPage(REFERENCE / "sample.md", text)


SAMPLE_COMMANDS = {"knowhub save": {"--task", "--json", "--url"}, "knowhub undo": set[str]()}
CITED = "see `knowhub/core/nowhere.py:iso`, `knowhub/core/clock.py:SystemClock.nothing` and `knowhub/core/clock.py:iso`"

LINKS = (
    "# A heading, with `code`\n[a](settings.md) [b](nowhere.md) [c](#a-heading-with-code) [d](#gone) "
    "[e](settings.md#knowhub_host) [f](settings.md#gone) [g](https://example.org/x) `[h](nowhere.md)`"
)


@pytest.mark.parametrize(
    ("check", "text", "found"),
    [
        (
            lambda page: find_wrong_settings(page, {"KNOWHUB_HOST", "KNOWHUB_PORT"}),
            "### KNOWHUB_HOST\n\n### KNOWHUB_MADE_UP\n\nKNOWHUB_PORT is only named.\n",
            ["KNOWHUB_PORT has no heading", "KNOWHUB_MADE_UP has a heading and does not exist"],
        ),
        (
            lambda page: find_wrong_routes(page, {"GET /health", "GET /ready"}),
            "### GET /health\n\n### POST /made/up\n\n```\n### GET /ready\n```\n",
            ["GET /ready has no heading", "POST /made/up has a heading and does not exist"],
        ),
        (
            lambda page: find_wrong_commands(page, SAMPLE_COMMANDS),
            "`--json`\n\n### knowhub save\n\n`--task`\n\n### knowhub get\n",
            [
                "knowhub undo has no heading",
                "knowhub get has a heading and does not exist",
                "knowhub save --url is named nowhere",
            ],
        ),
        (
            lambda page: find_missing_fields(page, {"id", "owner"}),
            "| `id` | owner |",
            ["sample.md does not name the field owner"],
        ),
        (
            find_dangling_citations,
            CITED,
            [
                "sample.md: there is no knowhub/core/nowhere.py",
                "sample.md: knowhub/core/clock.py has no SystemClock.nothing",
            ],
        ),
        (find_missing_paths, "`knowhub/nowhere/` beside `knowhub/core/`", ["sample.md: there is no knowhub/nowhere/"]),
        (
            find_untested_faults,
            "| fault | test |\n|---|---|\n| a quake | we hope |\n| a flood | `tests/crash/test_kill.py:killed` |\n",
            ["no test is named for: a quake", "tests/crash/test_kill.py:killed is no test"],
        ),
        (find_untested_faults, "nothing", ["sample.md has no table of faults"]),
        (
            find_broken_links,
            LINKS,
            [
                "sample.md: nowhere.md leads nowhere",
                "sample.md: #gone names no heading",
                "sample.md: settings.md#gone names no heading",
            ],
        ),
    ],
)
def test_each_check_reports_what_is_wrong(
    check: Callable[[DocsPage], Iterator[str]], text: str, found: list[str]
) -> None:
    assert list(check(sample(text))) == found
