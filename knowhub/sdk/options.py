"""What a keyword tree is opened with: settings by their own names and by those of the seeds, and defaults of calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from knowhub.sdk.arguments import flag
from knowhub.settings import Settings

_ALSO_KNOWN_AS: Final = {"enable_result_cache": "result_cache", "include_description": "describe_candidates"}
_CALL_DEFAULTS: Final = ("llm_disambiguate", "llm_dedup_check")
_ONE_LAYOUT: Final = (
    "KeywordTree has no option 'layout': a data directory has one layout, whose records/ holds nodes.jsonl, "
    "infos.jsonl and links.jsonl side by side"
)


@dataclass(frozen=True, slots=True)
class CallDefaults:
    """What Search and CreateKeyword do where a call does not say it (C-23, C-29)."""

    disambiguate: bool
    dedup_check: bool


def read_options(named: Mapping[str, Any], others: Mapping[str, Any]) -> tuple[Settings, CallDefaults]:
    """Return the settings of a tree, and the defaults of its calls; `others` go before `named`.

    Raises TypeError for an option that there is not or that is given twice, ValueError for a value that it cannot
    have.
    """
    chosen: dict[str, Any] = {}
    for name, value in others.items():
        known = _ALSO_KNOWN_AS.get(name, name)
        if known == "layout":
            raise TypeError(_ONE_LAYOUT)
        if known not in Settings.model_fields and known not in _CALL_DEFAULTS:
            raise TypeError(f"KeywordTree has no option {name!r}; settings are named in lower case, without KNOWHUB_")
        if known in chosen:
            raise TypeError(f"KeywordTree was given {known!r} under both of its names")
        chosen[known] = value
    asked = {name: flag(name, chosen.pop(name, False)) for name in _CALL_DEFAULTS}
    defaults = CallDefaults(asked["llm_disambiguate"], asked["llm_dedup_check"])
    return Settings(**{**named, **chosen}), defaults
