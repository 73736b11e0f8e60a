"""The prompts of the keyword tree, the JSON Schema of each answer, and the parser of `pick_branch`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from knowhub.core.language_models import ChatRequest
from knowhub.core.model_calls import DATA_RULE, NumberedChoices, list_pointers, make_question, short_text
from knowhub.core.operation import Row
from knowhub.core.unicode_forms import shorten
from knowhub.keywords.model import NewKeyword, RelationType

PICK_BRANCH = "pick_branch"
DISAMBIGUATE = "disambiguate_same_name"
DEDUP_CHECK = "dedup_check"
LINK_INFO = "link_info"
REORGANIZE = "reorganize"
REVIEW_PLAN = "review_plan"

MAX_QUERY = 1_000
MAX_ALIASES = 20
MAX_SUMMARY = 2_000
_SUMMARY_END = 500


class Intent(StrEnum):
    """The purpose of a descent."""

    SEARCH = "search"
    SUGGEST_PARENT = "suggest_parent"


@dataclass(frozen=True, slots=True)
class NearKeywordIds:
    """The ids of the keywords that come near a query: by their names, and others by description or meaning."""

    by_name: tuple[str, ...] = ()
    by_text: tuple[str, ...] = ()
    degraded: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Goal:
    """What a descent looks for: a query, or the place of a new keyword with its aliases and description.

    `near` are keywords that are shown first. `normal_form` is that of the query, by which the decisions of a model are
    cached.
    """

    text: str
    intent: Intent = Intent.SEARCH
    aliases: tuple[str, ...] = ()
    description: str = ""
    near: NearKeywordIds = NearKeywordIds()
    normal_form: str = ""


@dataclass(frozen=True, slots=True)
class PromptCandidate:
    """A keyword as a prompt shows it, without the id; what is empty or 0 is left out."""

    id: str
    name: str
    path: str
    description: str = ""
    children: int = 0
    infos: int = 0


@dataclass(frozen=True, slots=True)
class OutlineLine:
    """A keyword as a line of an outline, without the id; `level` is its indentation."""

    id: str
    name: str
    level: int
    children: int


_POINTER = {"type": ["integer", "string", "null"], "description": "the idx of one candidate"}
_POINTERS = {"type": "array", "items": {"type": ["integer", "string"]}, "description": "the idx of several candidates"}
_REASON = {"type": "string", "description": "why, in one short sentence"}


def _object_schema(required: Sequence[str], properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _list_schema(required: Sequence[str], properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": _object_schema(required, properties)}


SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    PICK_BRANCH: _object_schema(
        ["action"],
        {
            "action": {"type": "string", "enum": ["jump", "match", "more", "missing", "ambiguous"]},
            "node_id": _POINTER,
            "node_ids": _POINTERS,
            "jump_depth": {"type": "integer", "description": "how many levels a jump crosses"},
            "suggest_name": {"type": ["string", "null"], "description": "with missing: the name of a new keyword"},
            "candidate_ids": _POINTERS,
            "reason": _REASON,
        },
    ),
    DISAMBIGUATE: _object_schema(["node_id"], {"node_id": _POINTER, "reason": _REASON}),
    DEDUP_CHECK: _object_schema(
        ["action"],
        {
            "action": {"type": "string", "enum": ["alias_of", "merge", "create_new"]},
            "node_id": _POINTER,
            "reason": _REASON,
        },
    ),
    LINK_INFO: _object_schema(
        ["links"],
        {
            "links": _list_schema(
                ["keyword_id", "relation"],
                {
                    "keyword_id": _POINTER,
                    "relation": {"type": "string", "enum": [relation_type.value for relation_type in RelationType]},
                },
            ),
            "suggested_names": {"type": "array", "items": {"type": "string"}},
            "reason": _REASON,
        },
    ),
    REORGANIZE: _object_schema(
        [],
        {
            "moves": _list_schema(["node_id", "new_parent_id"], {"node_id": _POINTER, "new_parent_id": _POINTER}),
            "merges": _list_schema(["node_id", "into_id"], {"node_id": _POINTER, "into_id": _POINTER}),
            "descriptions": _list_schema(
                ["node_id", "description"], {"node_id": _POINTER, "description": {"type": "string"}}
            ),
            "splits": _list_schema(
                ["node_id", "groups"],
                {
                    "node_id": _POINTER,
                    "groups": _list_schema(["name", "node_ids"], {"name": {"type": "string"}, "node_ids": _POINTERS}),
                },
            ),
            "reason": _REASON,
        },
    ),
    REVIEW_PLAN: _object_schema(["refused"], {"refused": _POINTERS, "reason": _REASON}),
}
"""The shape of each function's answer. Pointers accept text too: what they point at is checked by the reader."""

_RULES = f"""
{DATA_RULE}
Names may be Chinese, English or mixed, abbreviations and translations of each other. Point at candidates by their
`idx` only, and only at ones that are listed. Write names and descriptions in the language of the names around them.
Answer with one JSON object."""

_CANDIDATES = """
Each candidate has an `idx`, its `name`, and its `path`: the names from the top of the tree down to it. Where there is
any, `description` says what it covers, `children` how many keywords are directly below it, and `infos` how many pieces
of information are on it."""

_OUTLINE = """
A part that was cut comes as an `outline` instead, one candidate a line: its idx, its name and, after two spaces, how
many keywords are directly below it. Each is indented below the one that it belongs to."""

_TASKS = {
    Intent.SEARCH: """
You find a keyword in a tree of keywords. The query is what somebody looks for; the answer is the keyword that means
the same, or the narrowest one that plainly covers it.""",
    Intent.SUGGEST_PARENT: """
You find the place of a new keyword in a tree of keywords. The query is the new keyword's name, with its `aliases` and
its `description` where it has any: they decide what the name means. The answer is the existing keyword directly under
which it belongs.""",
}

_PICK_BRANCH = """
You are shown a part of the tree as one flat list: at the start, keywords that share words with the query, then the
tree from its top, level by level. `has_more` says that the list was cut. `current_path` names where you stand, from
the top; it is empty at the start. `current_idx`, where there is one, stands for the last keyword of `current_path`.
Choose one `action`:
- match: the answer is among the candidates, at any depth. Give `node_id`, or `node_ids` when several fit equally.
- jump: the answer must lie below a candidate, and is not listed. Give `node_id`, or `node_ids` for several branches;
  next you are shown what lies below. `jump_depth` says how many levels that crosses.
- more: the answer, or the keyword above it, can only be in the part that was cut. Next you are shown that part.
- missing: the tree has no such keyword here. Give `suggest_name`, a good name for it.
- ambiguous: several candidates could be meant, and nothing decides. Give `candidate_ids`.
Efficiency: 能 match 就不 jump. Whenever a listed candidate is the answer, match it at once, however deep it is; jump
only to change the view to another branch."""

_DISAMBIGUATE = """
Several keywords of a tree bear the name that somebody looks for. Choose the one that the query means, by `path` and
`description`. When nothing decides, answer with `node_id` null."""

_DEDUP_CHECK = """
Somebody creates a keyword in a tree where others already bear its name or alias. Judge whether `new` is one of them:
- alias_of: it means exactly what a candidate means, and is only another name for it. Give its `node_id`.
- merge: it is that candidate, and what it brings along (aliases, description) belongs there. Give its `node_id`.
- create_new: it means something else, such as the same word in another branch. When in doubt, choose this."""

_LINK_INFO = """
Choose the keywords to which a piece of information belongs, and how:
- PRIMARY: it is about this keyword. - EXAMPLE: it is an example of it. - SOURCE: it names or is a source for it.
- RELATED: it touches it only. Leave out keywords that are merely mentioned. An empty list is a fine answer.
In `suggested_names` give at most 5 names of keywords that it should be under and that are not listed."""

_REORGANIZE = """
You tidy up a tree of keywords. `nodes` lists a part of it, with `description`, `children` and `infos` where a keyword
has any. Propose, and only where it plainly helps:
- moves: a keyword that belongs under another listed keyword. - merges: a keyword that means the same as another one.
- descriptions: for those without one, what the keyword covers, in one or two sentences, at most 500 characters.
- splits: for a keyword with too many children, groups with a `name` each and the listed children that belong there.
Leave out what is fine as it is."""


_REVIEW_PLAN = """
Rules propose to tidy up a tree of keywords by names alone. Each of `steps` has an `idx`: a `merge` makes `keyword` and
`target` one, because they mean the same; a `move` puts `keyword` directly under `target`. Judge by paths and
descriptions. In `refused` give the `idx` of each step that is wrong or in doubt. An empty list is a fine answer."""


def pick_branch(
    goal: Goal,
    path: Sequence[str],
    candidates: Sequence[PromptCandidate | OutlineLine],
    current_idx: int | None,
    *,
    has_more: bool,
) -> ChatRequest:
    """Ask for the next branch, or the matching keyword."""
    data: dict[str, Any] = {"query": shorten(goal.text, MAX_QUERY)}
    if goal.aliases:
        data["aliases"] = [shorten(alias, MAX_QUERY) for alias in goal.aliases[:MAX_ALIASES]]
    if goal.description:
        data["description"] = shorten(goal.description, MAX_QUERY)
    data["current_path"] = list(path)
    if current_idx is not None:
        data["current_idx"] = current_idx
    data["has_more"] = has_more
    outline = [candidate for candidate in candidates if isinstance(candidate, OutlineLine)]
    if outline:
        data["outline"] = "".join(_format_line(idx, line) for idx, line in enumerate(outline, 1))
    else:
        data["candidates"] = _list_candidates(
            [candidate for candidate in candidates if isinstance(candidate, PromptCandidate)]
        )
    return _make_request(PICK_BRANCH, _TASKS[goal.intent] + _PICK_BRANCH + _CANDIDATES + _OUTLINE, data)


def disambiguate(query: str, candidates: Sequence[PromptCandidate]) -> ChatRequest:
    """Ask which of several keywords of the same name is meant."""
    data = {"query": shorten(query, MAX_QUERY), "candidates": _list_candidates(candidates)}
    return _make_request(DISAMBIGUATE, _DISAMBIGUATE + _CANDIDATES, data)


def dedup_check(new: NewKeyword, parent_path: str, candidates: Sequence[PromptCandidate]) -> ChatRequest:
    """Ask whether a new keyword exists already."""
    data = {
        "new": {
            "name": shorten(new.name, MAX_QUERY),
            "aliases": [shorten(alias, MAX_QUERY) for alias in list(new.aliases)[:MAX_ALIASES]],
            "description": shorten(new.description, MAX_QUERY),
            "parent_path": parent_path,
        },
        "candidates": _list_candidates(candidates),
    }
    return _make_request(DEDUP_CHECK, _DEDUP_CHECK + _CANDIDATES, data)


def link_info(content: str, candidates: Sequence[PromptCandidate]) -> ChatRequest:
    """Ask for the keywords of an info."""
    return _make_request(
        LINK_INFO,
        _LINK_INFO + _CANDIDATES,
        {"info": shorten_content(content), "candidates": _list_candidates(candidates)},
    )


def reorganize(nodes: Sequence[PromptCandidate]) -> ChatRequest:
    """Ask how to put a part of the tree in better order."""
    return _make_request(REORGANIZE, _REORGANIZE + _CANDIDATES, {"nodes": _list_candidates(nodes)})


def review_plan(steps: Sequence[Mapping[str, Any]]) -> ChatRequest:
    """Ask which merges and moves are wrong."""
    return _make_request(REVIEW_PLAN, _REVIEW_PLAN, {"steps": list(steps)})


def shorten_content(content: str) -> str:
    """Return the beginning and the end of a text, at most MAX_SUMMARY characters."""
    if len(content) <= MAX_SUMMARY:
        return content
    return f"{content[: MAX_SUMMARY - _SUMMARY_END - 3]} … {content[-_SUMMARY_END:]}"


def _list_candidates(candidates: Sequence[PromptCandidate]) -> list[dict[str, Any]]:
    return [{"idx": idx, **format_candidate(candidate)} for idx, candidate in enumerate(candidates, 1)]


def _format_line(idx: int, line: OutlineLine) -> str:
    children = f"  ({line.children})" if line.children else ""
    return f"{' ' * line.level}{idx}. {line.name}{children}\n"


def format_candidate(candidate: PromptCandidate) -> dict[str, Any]:
    """Return a keyword as prompts list it, without its idx."""
    rest = {"description": candidate.description, "children": candidate.children, "infos": candidate.infos}
    return {"name": candidate.name, "path": candidate.path} | {name: value for name, value in rest.items() if value}


def _make_request(function: str, task: str, data: Mapping[str, Any]) -> ChatRequest:
    return make_question(function, f"{task}\n{_RULES}", data, SCHEMAS[function])


MAX_NAME = 200
_MAX_REASON = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """What every answer has: the model's reason, the recorded calls, and the name of the failure."""

    reason: str = ""
    calls: Sequence[Row] = ()
    failure: str | None = None


def parse_reason(answer: Mapping[str, Any]) -> str:
    """Return the reason that an answer gives, cut to 500 characters."""
    return short_text(answer.get("reason"), _MAX_REASON)


class AgentAction(StrEnum):
    JUMP = "jump"
    MATCH = "match"
    MORE = "more"
    MISSING = "missing"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class AgentDecision:
    """A parsed answer to `pick_branch`: `targets` are the ids of the candidates that its action names.

    `has_unknown_targets` says that it also named what it was not shown.
    """

    action: AgentAction
    targets: tuple[str, ...] = ()
    suggest_name: str | None = None
    reason: str = ""
    has_unknown_targets: bool = False


def parse_decision(answer: object, choices: NumberedChoices) -> AgentDecision | None:
    """Parse an answer; None if it is no decision. Never raises.

    `node_ids` count before `node_id`, and `candidate_ids` of an ambiguous answer before both. Pointers to unknown
    candidates are dropped.
    """
    if not isinstance(answer, Mapping):
        return None
    said = answer.get("action")
    # Only text is compared: comparing deeply nested lists could recurse without end.
    action = next((item for item in AgentAction if item == said), None) if isinstance(said, str) else None
    if action is None:
        return None
    listed, single = list_pointers(answer.get("node_ids")), list_pointers(answer.get("node_id"))
    offered = list_pointers(answer.get("candidate_ids"))
    is_ambiguous = action is AgentAction.AMBIGUOUS
    named = (offered if is_ambiguous else []) or listed or single
    targets = choices.pick_all(named)
    return AgentDecision(
        action=action,
        targets=targets if is_ambiguous or listed else targets[:1],
        suggest_name=short_text(answer.get("suggest_name"), MAX_NAME) or None,
        reason=parse_reason(answer),
        has_unknown_targets=any(choices.pick(item) is None for item in named),
    )
