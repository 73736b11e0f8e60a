"""A plan for the tree: what a reorganisation would do, as JSON that a person can read and edit (KT-185, KT-245)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from knowhub.core.errors import InvalidInput, KnowHubError
from knowhub.keywords import decisions

MAX_STEPS = 200
MAX_CHILDREN = 2_000
MAX_UNDESCRIBED = 200
_MAX_ID_CHARS = 200
_MAX_VERSION = 2**53
# What a plan says to a reader; whoever applies it goes by `steps`.
_PLAN_FIELDS = frozenset(
    {
        "scope_id",
        "scope_name",
        "created_at",
        "summary",
        "steps",
        "missing_descriptions",
        "missing_description_count",
        "degraded",
    }
)
_REF_FIELDS = frozenset({"id", "version", "name", "path"})


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A keyword at the version on which a step rests; name and path are for the reader."""

    id: str
    version: int
    name: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class MoveStep:
    node: NodeRef
    to: NodeRef
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MergeStep:
    source: NodeRef
    into: NodeRef
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DescribeStep:
    node: NodeRef
    description: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """A keyword to be made below the one that is split, and the children that go below it."""

    name: str
    children: Sequence[NodeRef]


@dataclass(frozen=True, slots=True)
class SplitStep:
    node: NodeRef
    groups: Sequence[SplitGroup]
    reason: str = ""


Step: TypeAlias = MoveStep | MergeStep | DescribeStep | SplitStep


@dataclass(frozen=True, slots=True)
class Undescribed:
    """A keyword without a description."""

    id: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be done below `scope_id`, in this order; `undescribed` is the beginning of a list that long."""

    scope_id: str
    scope_name: str
    created_at: str
    steps: Sequence[Step]
    undescribed: Sequence[Undescribed]
    undescribed_count: int
    degraded: Sequence[str]
    summary: str


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON; `parsed_steps` reads its steps again."""
    return {
        "scope_id": plan.scope_id,
        "scope_name": plan.scope_name,
        "created_at": plan.created_at,
        "summary": plan.summary,
        "steps": [_step_json(step) for step in plan.steps],
        "missing_descriptions": [{"id": one.id, "name": one.name, "path": one.path} for one in plan.undescribed],
        "missing_description_count": plan.undescribed_count,
        "degraded": list(plan.degraded),
    }


def parsed_steps(plan: Mapping[str, Any]) -> list[Step]:
    """Read the steps of a plan that came from outside; a person may have dropped some, or changed words in them.

    Raises InvalidInput naming `plan.steps.<index>.<field>`, also for a field that no step has: a misspelt word
    would be a change that is lost.
    """
    _only(plan, _PLAN_FIELDS, "plan")
    steps = _list(plan, "steps", "plan", MAX_STEPS)
    parsed = [_parsed_step(step, f"plan.steps.{index}") for index, step in enumerate(steps)]
    moved = sum(len(group.children) for step in parsed if isinstance(step, SplitStep) for group in step.groups)
    if moved > MAX_CHILDREN:
        raise InvalidInput.of("plan.steps", f"may move at most {MAX_CHILDREN} children in splits; these are {moved}")
    return parsed


def refs_of(step: Step) -> list[NodeRef]:
    """Return every keyword on which a step rests."""
    match step:
        case MoveStep(node=node, to=to):
            return [node, to]
        case MergeStep(source=source, into=into):
            return [source, into]
        case DescribeStep(node=node):
            return [node]
        case SplitStep(node=node, groups=groups):
            return [node, *(child for group in groups for child in group.children)]


def _step_json(step: Step) -> dict[str, Any]:
    match step:
        case MoveStep():
            body: dict[str, Any] = {"kind": "move", "node": _ref_json(step.node), "to": _ref_json(step.to)}
        case MergeStep():
            body = {"kind": "merge", "source": _ref_json(step.source), "into": _ref_json(step.into)}
        case DescribeStep():
            body = {"kind": "describe", "node": _ref_json(step.node), "description": step.description}
        case SplitStep():
            groups = [{"name": group.name, "children": list(map(_child_json, group.children))} for group in step.groups]
            body = {"kind": "split", "node": _ref_json(step.node), "groups": groups}
    return body | {"reason": step.reason}


def _ref_json(ref: NodeRef) -> dict[str, Any]:
    return {"id": ref.id, "name": ref.name, "path": ref.path, "version": ref.version}


def _child_json(ref: NodeRef) -> dict[str, Any]:
    # Its path is that of the node that is split, and a plan may name many of them.
    return {"id": ref.id, "name": ref.name, "version": ref.version}


def _parsed_step(step: object, at: str) -> Step:
    body = _object(step, at)
    kind = _text(body, "kind", at)
    parse = _PARSERS.get(kind)
    if parse is None:
        raise InvalidInput.of(f"{at}.kind", f"{kind!r} is no kind of step: use {', '.join(_PARSERS)}")
    return parse(body, at)


def _move(body: Mapping[str, Any], at: str) -> Step:
    _only(body, frozenset({"kind", "node", "to", "reason"}), at)
    return MoveStep(_ref(body, "node", at), _ref(body, "to", at), _reason(body, at))


def _merge(body: Mapping[str, Any], at: str) -> Step:
    _only(body, frozenset({"kind", "source", "into", "reason"}), at)
    return MergeStep(_ref(body, "source", at), _ref(body, "into", at), _reason(body, at))


def _describe(body: Mapping[str, Any], at: str) -> Step:
    _only(body, frozenset({"kind", "node", "description", "reason"}), at)
    description = _text(body, "description", at)
    _checked(lambda: decisions.check_description(description), at)
    return DescribeStep(_ref(body, "node", at), description, _reason(body, at))


def _split(body: Mapping[str, Any], at: str) -> Step:
    _only(body, frozenset({"kind", "node", "groups", "reason"}), at)
    groups = _list(body, "groups", at, MAX_CHILDREN)
    if not groups:
        raise InvalidInput.of(f"{at}.groups", "must name at least one group; drop the step if nothing is to be split")
    parsed = [_group(group, f"{at}.groups.{index}") for index, group in enumerate(groups)]
    return SplitStep(_ref(body, "node", at), parsed, _reason(body, at))


_PARSERS: dict[str, Callable[[Mapping[str, Any], str], Step]] = {
    "move": _move,
    "merge": _merge,
    "describe": _describe,
    "split": _split,
}


def _group(value: object, at: str) -> SplitGroup:
    body = _object(value, at)
    _only(body, frozenset({"name", "children"}), at)
    name = _text(body, "name", at)
    _checked(lambda: decisions.check_length("name", name), at)
    children = _list(body, "children", at, MAX_CHILDREN)
    if not children:
        raise InvalidInput.of(f"{at}.children", "must name at least one child; drop the group if it is to be empty")
    return SplitGroup(name, [_parsed_ref(child, f"{at}.children.{index}") for index, child in enumerate(children)])


def _ref(body: Mapping[str, Any], name: str, at: str) -> NodeRef:
    return _parsed_ref(body.get(name), f"{at}.{name}")


def _parsed_ref(value: object, at: str) -> NodeRef:
    body = _object(value, at)
    _only(body, _REF_FIELDS, at)
    keyword_id = _text(body, "id", at)
    if not 0 < len(keyword_id) <= _MAX_ID_CHARS:
        raise InvalidInput.of(f"{at}.id", "must be the id of a keyword")
    version = body.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or not 0 < version <= _MAX_VERSION:
        raise InvalidInput.of(f"{at}.version", "must be the version on which the plan rests, an integer from 1")
    return NodeRef(keyword_id, version, _text(body, "name", at, ""), _text(body, "path", at, ""))


def _reason(body: Mapping[str, Any], at: str) -> str:
    return _text(body, "reason", at, "")


def _object(value: object, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput.of(at, "must be an object")
    return value


def _list(body: Mapping[str, Any], name: str, at: str, limit: int) -> Sequence[Any]:
    value = body.get(name)
    if not isinstance(value, list | tuple):
        raise InvalidInput.of(f"{at}.{name}", "must be a list")
    if len(value) > limit:
        raise InvalidInput.of(f"{at}.{name}", f"must have at most {limit} entries; these are {len(value)}")
    return value


def _text(body: Mapping[str, Any], name: str, at: str, default: str | None = None) -> str:
    value = body.get(name, default)
    if not isinstance(value, str):
        raise InvalidInput.of(f"{at}.{name}", "must be text")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidInput.of(f"{at}.{name}", "must not hold half of a surrogate pair")
    return value


def _only(body: Mapping[str, Any], known: frozenset[str], at: str) -> None:
    for name in body:
        if name not in known:
            raise InvalidInput.of(f"{at}.{name}", f"is not known here; what is: {', '.join(sorted(known))}")


def _checked(check: Callable[[], None], at: str) -> None:
    """Run a rule of a keyword's field, and say where in the plan the field stands."""
    try:
        check()
    except InvalidInput as problem:
        raise InvalidInput.of(f"{at}.{problem.errors[0].field}", problem.errors[0].message) from problem
    except KnowHubError as problem:
        raise InvalidInput.of(at, problem.detail) from problem
