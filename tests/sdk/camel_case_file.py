"""Generate knowhub/sdk/camel_case.py from the snake_case methods: `python -m tests.sdk.camel_case_file` writes it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SDK = Path(__file__).resolve().parents[2] / "knowhub" / "sdk"
SOURCE, TARGET = SDK / "keyword_methods.py", SDK / "camel_case.py"
# The CamelCase names and defaults of parameters that differ.
PARAMETERS = {
    "use_agent": "llm_expand_query",
    "use_agent_for_parent": "llm_auto_place",
    "disambiguate": "llm_disambiguate",
    "dedup_check": "llm_dedup_check",
}
DEFAULTS = {("link_info", "relation"): "RelationType.PRIMARY"}

HEADER = '''"""The CamelCase names of the methods of a keyword tree.

Generated from `knowhub/sdk/keyword_methods.py`; do not edit. `python -m tests.sdk.camel_case_file` writes it anew.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from knowhub.keywords.model import RelationType
from knowhub.sdk.keyword_methods import KeywordMethods
from knowhub.sdk.values import Info, InfoKeywordLink, KeywordNode, SearchResult


class CamelCaseMethods(ABC):
    """Calls the snake_case method of `_methods`. All parameters are positional."""

    @property
    @abstractmethod
    def _methods(self) -> KeywordMethods: ...

    @property
    def LastOperationId(self) -> str | None:
        return self._methods.last_operation_id
'''


def generate() -> str:
    """Return the text of the generated file."""
    (methods,) = [
        node
        for node in ast.parse(SOURCE.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "KeywordMethods"
    ]
    text = HEADER + "".join(f"\n{method}" for method in camel_case_methods(methods))
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=text, capture_output=True, check=True, text=True).stdout


def camel_case_methods(methods: ast.ClassDef) -> Iterator[str]:
    for method in methods.body:
        if not isinstance(method, ast.FunctionDef) or method.name.startswith("_"):
            continue
        arguments = method.args
        positional = arguments.args[1:]
        missing = [None] * (len(positional) - len(arguments.defaults))
        pairs = [
            *zip(positional, [*missing, *arguments.defaults], strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        parameters = ["self", *(parameter(method.name, name, default) for name, default in pairs)]
        call = [PARAMETERS.get(name.arg, name.arg) for name in positional]
        call += [f"{name.arg}={PARAMETERS.get(name.arg, name.arg)}" for name in arguments.kwonlyargs]
        assert method.returns is not None
        camel = "".join(part.capitalize() for part in method.name.split("_"))
        yield (
            f"    def {camel}({', '.join(parameters)}) -> {ast.unparse(method.returns)}:\n"
            f"        return self._methods.{method.name}({', '.join(call)})\n"
        )


def parameter(method: str, argument: ast.arg, default: ast.expr | None) -> str:
    assert argument.annotation is not None
    declared = f"{PARAMETERS.get(argument.arg, argument.arg)}: {ast.unparse(argument.annotation)}"
    value = DEFAULTS.get((method, argument.arg)) or (None if default is None else ast.unparse(default))
    return declared if value is None else f"{declared} = {value}"


if __name__ == "__main__":
    TARGET.write_text(generate(), encoding="utf-8")
