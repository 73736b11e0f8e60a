"""The house rules of CONTRIBUTING.md, as tests. Each is shown a sample that breaks it: it can fail."""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("knowhub", "agent_tools")
TOOLS = tuple(f"agent_tools/{name}.py" for name in ("knowledge", "keywords", "compaction", "memory", "resources"))
FILE_LINES, FUNCTION_LINES, PARAMETERS = 400, 60, 6
STATEMENT_RULES = ("clauses", "forms", "lessons", "reader")
RULE_LINES = 600

SAYS_NOTHING = {"base", "common", "helper", "helpers", "manager", "managers", "misc", "util", "utils", "v2"}
NOWHERE = {"pickle", "unittest.mock"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
BARE_SUPPRESSION = re.compile(
    r"#\s*(noqa(:\s*[A-Z]+\d+([,\s]+[A-Z]+\d+)*)?|type:\s*ignore(\[[\w, -]+\])?|pragma: no cover)\s*$"
)
# In two halves, or this file would break its own rule.
REGISTRY_HOSTS = ("pypi" + ".org", "files.python" + "hosted.org")
MACHINE_PATH = re.compile(r"(?<![\w./-])/(work|opt/wheels|opt/pypi[\w-]*)(?=/)")


@dataclass(frozen=True, slots=True)
class Source:
    """A Python file: its path from the root, and its text."""

    path: PurePosixPath
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with two samples: a text that breaks it, and a similar text that does not."""

    name: str
    breaches: Callable[[Source], Iterator[str]]
    bad: Source
    good: Source


def find_long_file(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > FILE_LINES:
        yield f"{source.path} has {lines} lines"


def find_long_functions(source: Source) -> Iterator[str]:
    for function, _ in functions(source):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES:
            yield f"{source.path}:{function.lineno} {function.name} has {lines} lines"


def find_many_parameters(source: Source) -> Iterator[str]:
    for function, in_class in functions(source):
        # The seed fixes the signatures of its tools, which are the public functions of these files: five of their
        # parameters say who is asking.
        if str(source.path) in TOOLS and not function.name.startswith("_"):
            continue
        names = [
            arg.arg
            for arg in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
            if not (in_class and arg.arg in {"self", "cls"})
        ]
        if len(names) > PARAMETERS:
            yield f"{source.path}:{function.lineno} {function.name} has {len(names)} parameters"


def find_full_init(source: Source) -> Iterator[str]:
    if source.path.name == "__init__.py" and str(source.path) != "knowhub/sdk/__init__.py" and source.text.strip():
        yield f"{source.path} is not empty"


def find_empty_names(source: Source) -> Iterator[str]:
    for name in (*source.path.parts[1:-1], source.path.stem):
        if name.strip("_") in SAYS_NOTHING:
            yield f"{source.path}: {name} says nothing"


def find_swallowed_errors(source: Source) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.ExceptHandler) and all(does_nothing(line) for line in node.body):
            yield f"{source.path}:{node.lineno} swallows an error"
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            names = {ast.unparse(arg) for arg in node.args}
            if names & {"Exception", "BaseException"}:
                yield f"{source.path}:{node.lineno} swallows every error"


def find_unfinished_code(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := UNFINISHED.search(line):
            yield f"{source.path}:{number} {found[0]}"


def find_bare_suppressions(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if BARE_SUPPRESSION.search(line):
            yield f"{source.path}:{number} {line.strip()}"


def find_forbidden_imports(source: Source) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.text)):
        match node:
            case ast.Import(names=names):
                imported = {name.name for name in names}
            case ast.ImportFrom(module=str(module), names=names):
                imported = {module, *(f"{module}.{name.name}" for name in names)}
            case _:
                continue
        for name in sorted(imported & NOWHERE):
            yield f"{source.path}:{node.lineno} imports {name}"


def find_machine_paths(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := MACHINE_PATH.search(line):
            yield f"{source.path}:{number} {found[0]}"


def find_registry_addresses(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        for host in REGISTRY_HOSTS:
            if host in line:
                yield f"{source.path}:{number} {host}"


def functions(source: Source) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    """Yield every function, and whether it is a method."""
    for parent in ast.walk(ast.parse(source.text)):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node, isinstance(parent, ast.ClassDef)


def does_nothing(line: ast.stmt) -> bool:
    return isinstance(line, ast.Pass) or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))


def sample(text: str, path: str = "knowhub/knowledge/service.py") -> Source:
    return Source(PurePosixPath(path), text)


def lines(count: int) -> str:
    return "x = 1\n" * count


def function_of(count: int) -> str:
    return "def f():\n" + "    x = 1\n" * (count - 1)


PRODUCT_RULES = (
    Rule("a file fits in the head", find_long_file, sample(lines(401)), sample(lines(400))),
    Rule("a function fits on a screen", find_long_functions, sample(function_of(61)), sample(function_of(60))),
    Rule(
        "a function takes six parameters",
        find_many_parameters,
        sample("def f(a, b, c, d, e, /, g, *, h): ..."),
        sample("class C:\n    async def f(self, a, b, c, d, e, g): ..."),
    ),
    Rule(
        "only the published tools take more parameters",
        find_many_parameters,
        sample("def _f(a, b, c, d, e, g, h): ...", "agent_tools/knowledge.py"),
        sample("async def f(a, b, c, d, e, g, h): ...", "agent_tools/knowledge.py"),
    ),
    Rule(
        "__init__.py is empty",
        find_full_init,
        sample("from knowhub.core import errors", "knowhub/core/__init__.py"),
        sample("from knowhub.sdk.keyword_tree import KeywordTree", "knowhub/sdk/__init__.py"),
    ),
    Rule(
        "a module's name says what is in it",
        find_empty_names,
        sample("", "knowhub/web/utils.py"),
        sample("", "knowhub/web/routes/knowledge.py"),
    ),
    Rule(
        "a folder's name says what is in it",
        find_empty_names,
        sample("", "knowhub/common/text.py"),
        sample("", "knowhub/search/text.py"),
    ),
    Rule(
        "no error is swallowed",
        find_swallowed_errors,
        sample("try:\n    f()\nexcept OSError:\n    pass"),
        sample("try:\n    f()\nexcept OSError as error:\n    note(error)"),
    ),
    Rule(
        "suppress names what it suppresses",
        find_swallowed_errors,
        sample("with contextlib.suppress(Exception):\n    f()"),
        sample("with contextlib.suppress(FileNotFoundError):\n    f()"),
    ),
    Rule("nothing is left for later", find_unfinished_code, sample("x = 1  # TO" + "DO later"), sample("todo = 1")),
)
PYTHON_RULES = (
    Rule(
        "a suppression carries its reason",
        find_bare_suppressions,
        sample("x = 1  # no" + "qa: S104, S105"),
        sample("x = 1  # no" + "qa: S104 - compose publishes loopback only"),
    ),
    Rule(
        "no mocks and no pickles",
        find_forbidden_imports,
        sample("from unittest import mock"),
        sample("from unittest import TestCase"),
    ),
)
TEXT_RULES = (
    Rule(
        "no path of one machine",
        find_machine_paths,
        sample("cp " + "/work" + "/main/x ."),
        sample("see https://example.org/work/main and docs/work/x"),
    ),
    Rule(
        "no address of a registry",
        find_registry_addresses,
        sample("--index-url https://" + REGISTRY_HOSTS[0] + "/simple"),
        sample("httpcore==1.0.9"),
    ),
)
RULES = (*PRODUCT_RULES, *PYTHON_RULES, *TEXT_RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_fails_on_its_bad_sample_only(rule: Rule) -> None:
    assert list(rule.breaches(rule.bad))
    assert list(rule.breaches(rule.good)) == []


@pytest.mark.parametrize("rule", PRODUCT_RULES, ids=lambda rule: rule.name)
def test_the_product_follows_the_rule(rule: Rule) -> None:
    product = [source for source in list_tracked_files(".py") if source.path.parts[0] in PRODUCT]

    assert product
    assert [breach for source in product for breach in rule.breaches(source)] == []


@pytest.mark.parametrize("rule", PYTHON_RULES, ids=lambda rule: rule.name)
def test_all_python_files_follow_the_rule(rule: Rule) -> None:
    assert [breach for source in list_tracked_files(".py") for breach in rule.breaches(source)] == []


@pytest.mark.parametrize("rule", TEXT_RULES, ids=lambda rule: rule.name)
def test_no_tracked_file_names_a_machine(rule: Rule) -> None:
    assert [breach for source in list_tracked_files("") for breach in rule.breaches(source)] == []


def test_the_rules_that_read_statements_stay_few() -> None:
    modules = [ROOT / "knowhub" / "conversations" / "statements" / f"{name}.py" for name in STATEMENT_RULES]

    assert sum(len(module.read_text(encoding="utf-8").splitlines()) for module in modules) <= RULE_LINES


def list_tracked_files(suffix: str) -> list[Source]:
    """Return the files that git tracks or would; outside a clone, every file not in a hidden folder."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        names = [name for name in listed.split("\0") if name]
    else:
        found = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        names = [str(path) for path in found if not any(part[0] in "._" for part in path.parts[:-1])]
    return [
        Source(PurePosixPath(name), (ROOT / name).read_text(encoding="utf-8", errors="ignore"))
        for name in names
        if name.endswith(suffix) and (ROOT / name).is_file()
    ]
