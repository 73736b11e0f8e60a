"""The arguments of a keyword tree, and of its `_Normalize`: a wrong one raises an error that names it."""

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Final, TypeVar

from knowhub.core.errors import InvalidInput
from knowhub.keywords.fields import parse_texts
from knowhub.keywords.model import NewInfo, NewKeyword
from knowhub.search.keyword_text import KeywordTextRules
from knowhub.settings import Settings

NewT = TypeVar("NewT", NewKeyword, NewInfo)

_ALIASES: Final = {"enable_result_cache": "result_cache", "include_description": "describe_candidates"}
_CALL_DEFAULTS: Final = ("llm_disambiguate", "llm_dedup_check")
_ONE_LAYOUT: Final = (
    "KeywordTree has no option 'layout': a data directory has one layout, whose records/ holds nodes.jsonl, "
    "infos.jsonl and links.jsonl side by side"
)


def parse_options(parameters: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[Settings, Mapping[str, bool]]:
    """Return the settings of a tree, and what its calls do when they do not say it. `options` replace `parameters`.

    Raises TypeError for an option that does not exist or is given twice, and ValueError for an invalid value.
    """
    chosen: dict[str, Any] = {}
    for given, value in options.items():
        name = _ALIASES.get(given, given)
        if name == "layout":
            raise TypeError(_ONE_LAYOUT)
        if name not in Settings.model_fields and name not in _CALL_DEFAULTS:
            raise TypeError(f"KeywordTree has no option {given!r}; settings are named in lower case, without KNOWHUB_")
        if name in chosen:
            raise TypeError(f"KeywordTree was given {name!r} under both of its names")
        chosen[name] = value
    defaults = {name: check_flag(name, chosen.pop(name, False)) for name in _CALL_DEFAULTS}
    return Settings(**{**parameters, **chosen}), defaults


def check_flag(field: str, value: object) -> bool:
    """Return True or False. A text such as "no" is refused."""
    if not isinstance(value, bool):
        raise InvalidInput.of(field, f"must be True or False, not {type(value).__name__}")
    return value


def check_number(field: str, value: object) -> float:
    """Return a finite number of at least 0."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidInput.of(field, f"must be a number, not {type(value).__name__}")
    if not 0 <= value < math.inf:
        raise InvalidInput.of(field, "must be at least 0, and finite")
    return float(value)


def parse_specs(kind: type[NewT], specs: Sequence[Mapping[str, Any]]) -> list[NewT]:
    """Return the new rows of a batch, one for each spec."""
    if not isinstance(specs, list | tuple):
        raise InvalidInput.of("specs", f"must be a list, not {type(specs).__name__}")
    return [kind(**dict(_list_spec_fields(kind, spec, f"items.{index}"))) for index, spec in enumerate(specs)]


def _list_spec_fields(kind: type[NewT], spec: object, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(spec, Mapping):
        raise InvalidInput.of(path, f"must be an object of fields, not {type(spec).__name__}")
    required = {field.name: field.default is MISSING and field.default_factory is MISSING for field in fields(kind)}
    for name in spec:
        if name not in required:
            raise InvalidInput.of(f"{path}.{name}", f"is unknown; the fields are {', '.join(required)}")
    for name, is_required in required.items():
        if is_required and name not in spec:
            raise InvalidInput.of(f"{path}.{name}", "is missing")
        if name in spec:
            yield name, spec[name]


class TreeText(KeywordTextRules):
    """The KeywordText of a tree. It holds its method weakly, so that a tree that nobody uses is freed and closed."""

    def __init__(self, normalize: Callable[[str], list[str]]) -> None:
        self._normalize = weakref.WeakMethod(normalize)

    def name_keys(self, text: str) -> list[str]:
        """Return the normal forms. Raises InvalidInput if they are no list of texts, and what `_Normalize` raises."""
        normalize = self._normalize()
        if normalize is None:
            raise RuntimeError("this keyword tree does not exist any more")
        try:
            return check_normal_forms(normalize(text))
        except Exception:
            raise
        except BaseException as error:
            # It would end the event loop, which other threads wait for.
            raise RuntimeError(f"`normalize` raised {type(error).__name__}") from error


def check_normal_forms(value: object) -> list[str]:
    """Return the list of texts that `normalize` made. Raises InvalidInput when it is anything else."""
    if not isinstance(value, list):
        raise InvalidInput.of("normalize", f"must return a list of texts, not {type(value).__name__}")
    return parse_texts("normalize", value)
