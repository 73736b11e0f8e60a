"""Every compiled pattern of the product, by the name of the module and of the value that holds it."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import agent_tools
import knowhub

_DEEPEST: Final = 6
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def find_patterns() -> dict[str, re.Pattern[Any]]:
    """Return the patterns that the modules of the product hold, without duplicates."""
    found: dict[str, re.Pattern[Any]] = {}
    seen: set[tuple[Any, int]] = set()
    for module in _modules():
        for name, value in list(vars(module).items()):
            for number, pattern in enumerate(_patterns_in(value, 0)):
                key = (pattern.pattern, pattern.flags)
                if key not in seen:
                    seen.add(key)
                    found[f"{module.__name__}.{name}" + (f"[{number}]" if number else "")] = pattern
    return found


def find_calls() -> dict[str, set[str]]:
    """Return the functions of the product that call `re`, by the name of the called function."""
    callers: dict[str, set[str]] = {}
    for package in (knowhub, agent_tools):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "re." not in text:
                continue
            for caller, called in _calls_in(ast.parse(text), ""):
                callers.setdefault(called, set()).add(f"{path.relative_to(root.parent)}:{caller}")
    return callers


def _calls_in(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
    """Yield each call of a function of `re` inside a function, with the name of the caller."""
    for child in ast.iter_child_nodes(node):
        inside = getattr(child, "name", "lambda") if isinstance(child, _FUNCTIONS) else function
        if (
            inside
            and isinstance(child, ast.Call)
            and isinstance(child.func, ast.Attribute)
            and isinstance(child.func.value, ast.Name)
            and child.func.value.id == "re"
        ):
            yield inside, child.func.attr
        yield from _calls_in(child, inside)


def _modules() -> Iterator[ModuleType]:
    for package in (knowhub, agent_tools):
        yield package
        for item in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not item.name.endswith("__main__"):
                try:
                    yield importlib.import_module(item.name)
                except ModuleNotFoundError:
                    # An integration whose framework is not installed here; it may have no pattern then.
                    path = Path(agent_tools.__path__[0]).parent / f"{item.name.replace('.', '/')}.py"
                    if not item.name.startswith("agent_tools.integrations.") or "re.compile" in path.read_text("utf-8"):
                        raise


def _patterns_in(value: object, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < _DEEPEST:
        for part in _parts(value):
            yield from _patterns_in(part, depth + 1)


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif isinstance(value, FunctionType):
        yield from value.__defaults__ or ()
        yield from (cell.cell_contents for cell in value.__closure__ or ())
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, field.name, None) for field in fields(value))
