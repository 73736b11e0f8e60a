"""A plan of curation: its steps, and the JSON that a person can read and edit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from knowhub.core.errors import InvalidInput, KnowHubError
from knowhub.keywords import keyword_rules

MAX_STEPS = 200
MAX_CHILDREN = 2_000
MAX_UNDESCRIBED = 200
_MAX_ID_CHARS = 200
_MAX_VERSION = 2**53


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A keyword at the version that a step depends on; name and path are for the reader."""

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
    """A new keyword below the split keyword, and the children that move below it."""

    name: str
    children: Sequence[NodeRef]


@dataclass(frozen=True, slots=True)
class SplitStep:
    node: NodeRef
    groups: Sequence[SplitGroup]
    reason: str = ""


Step: TypeAlias = MoveStep | MergeStep | DescribeStep | SplitStep


@dataclass(frozen=True, slots=True)
class CurationPlan:
    """The steps proposed below `scope_id`, and the first of the keywords without a description.

    `dropped` counts the proposals that are not possible together, or beyond MAX_STEPS.
    """

    scope_id: str
    scope_name: str
    created_at: str
    summary: str
    steps: Sequence[Step]
    undescribed: Sequence[NodeRef]
    undescribed_count: int
    degraded: Sequence[str]
    dropped: int = 0


def render_plan(plan: CurationPlan) -> dict[str, Any]:
    """Return the plan as JSON; `parse_steps` reads its steps."""
    return {
        "scope_id": plan.scope_id,
        "scope_name": plan.scope_name,
        "created_at": plan.created_at,
        "summary": plan.summary,
        "steps": [_render_step(step) for step in plan.steps],
        "missing_descriptions": [{"id": ref.id, "name": ref.name, "path": ref.path} for ref in plan.undescribed],
        "missing_description_count": plan.undescribed_count,
        "degraded": list(plan.degraded),
        "dropped": [{"what": "proposals", "why": "not_possible", "count": plan.dropped}] if plan.dropped else [],
    }


def parse_steps(plan: Mapping[str, Any]) -> list[Step]:
    """Parse the steps of a plan that a person may have edited.

    Raises InvalidInput naming `plan.steps.<index>.<field>`, also for an unknown field.
    """
    _check_known(plan, _PLAN_FIELDS, "plan")
    steps = _get_list(plan, "steps", "plan", MAX_STEPS)
    parsed = [_parse_step(step, f"plan.steps.{index}") for index, step in enumerate(steps)]
    moved = sum(len(group.children) for step in parsed if isinstance(step, SplitStep) for group in step.groups)
    if moved > MAX_CHILDREN:
        raise InvalidInput.of("plan.steps", f"may move at most {MAX_CHILDREN} children in splits; these are {moved}")
    return parsed


def list_refs(step: Step) -> list[NodeRef]:
    """Return every keyword that a step depends on."""
    match step:
        case MoveStep(node=node, to=to):
            return [node, to]
        case MergeStep(source=source, into=into):
            return [source, into]
        case DescribeStep(node=node):
            return [node]
        case SplitStep(node=node, groups=groups):
            return [node, *(child for group in groups for child in group.children)]


def _render_step(step: Step) -> dict[str, Any]:
    kind = next(name for name, step_type in _KINDS.items() if isinstance(step, step_type))
    return {"kind": kind} | {field.name: _render(getattr(step, field.name)) for field in fields(step)}


def _render(value: Any) -> Any:  # noqa: ANN401 -- a field of any step
    match value:
        case NodeRef():
            return {"id": value.id, "name": value.name, "path": value.path, "version": value.version}
        case SplitGroup():
            # Without paths: a plan may have many children, and the path of each is that of the split keyword.
            children = [{"id": child.id, "name": child.name, "version": child.version} for child in value.children]
            return {"name": value.name, "children": children}
        case list() | tuple():
            return [_render(item) for item in value]
    return value


def _parse_step(step: object, at: str) -> Step:
    body = _check_object(step, at)
    kind = _get_text(body, "kind", at)
    step_type = _KINDS.get(kind)
    if step_type is None:
        raise InvalidInput.of(f"{at}.kind", f"{kind!r} is no kind of step: use {', '.join(_KINDS)}")
    names = [field.name for field in fields(step_type)]
    _check_known(body, {"kind", *names}, at)
    return step_type(**{name: _PARSERS[name](body, name, at) for name in names})


def _parse_description(body: Mapping[str, Any], name: str, at: str) -> str:
    description = _get_text(body, name, at)
    _check_field(lambda: keyword_rules.check_description(description), at)
    return description


def _parse_groups(body: Mapping[str, Any], name: str, at: str) -> list[SplitGroup]:
    groups = _get_list(body, name, at, MAX_CHILDREN)
    if not groups:
        raise InvalidInput.of(f"{at}.groups", "must name at least one group; drop the step if nothing is to be split")
    return [_parse_group(group, f"{at}.groups.{index}") for index, group in enumerate(groups)]


def _parse_group(value: object, at: str) -> SplitGroup:
    body = _check_object(value, at)
    _check_known(body, {"name", "children"}, at)
    name = _get_text(body, "name", at)
    _check_field(lambda: keyword_rules.check_length("name", name), at)
    children = _get_list(body, "children", at, MAX_CHILDREN)
    if not children:
        raise InvalidInput.of(f"{at}.children", "must name at least one child; drop the group if it is to be empty")
    return SplitGroup(name, [_parse_ref(child, f"{at}.children.{index}") for index, child in enumerate(children)])


def _parse_ref(value: object, at: str) -> NodeRef:
    body = _check_object(value, at)
    _check_known(body, {"id", "version", "name", "path"}, at)
    keyword_id = _get_text(body, "id", at)
    if not 0 < len(keyword_id) <= _MAX_ID_CHARS:
        raise InvalidInput.of(f"{at}.id", "must be the id of a keyword")
    version = body.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or not 0 < version <= _MAX_VERSION:
        raise InvalidInput.of(f"{at}.version", "must be the version that the plan depends on, an integer from 1")
    return NodeRef(keyword_id, version, _get_text(body, "name", at, ""), _get_text(body, "path", at, ""))


def _get_ref(body: Mapping[str, Any], name: str, at: str) -> NodeRef:
    return _parse_ref(body.get(name), f"{at}.{name}")


def _get_list(body: Mapping[str, Any], name: str, at: str, limit: int) -> Sequence[Any]:
    value = body.get(name)
    if not isinstance(value, list | tuple):
        raise InvalidInput.of(f"{at}.{name}", "must be a list")
    if len(value) > limit:
        raise InvalidInput.of(f"{at}.{name}", f"must have at most {limit} entries; these are {len(value)}")
    return value


def _get_text(body: Mapping[str, Any], name: str, at: str, default: str | None = None) -> str:
    value = body.get(name, default)
    if not isinstance(value, str):
        raise InvalidInput.of(f"{at}.{name}", "must be text")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidInput.of(f"{at}.{name}", "must not hold half of a surrogate pair")
    return value


def _check_object(value: object, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput.of(at, "must be an object")
    return value


def _check_known(body: Mapping[str, Any], known: set[str], at: str) -> None:
    for name in body:
        if name not in known:
            raise InvalidInput.of(f"{at}.{name}", f"is not known here; known are: {', '.join(sorted(known))}")


def _check_field(check: Callable[[], None], at: str) -> None:
    """Check a field of a keyword; an error names its position in the plan."""
    try:
        check()
    except InvalidInput as problem:
        raise InvalidInput.of(f"{at}.{problem.errors[0].field}", problem.errors[0].message) from problem
    except KnowHubError as problem:
        raise InvalidInput.of(at, problem.detail) from problem


_KINDS: Final[Mapping[str, type[Step]]] = {
    "move": MoveStep,
    "merge": MergeStep,
    "describe": DescribeStep,
    "split": SplitStep,
}
_PARSERS: Final[Mapping[str, Callable[[Mapping[str, Any], str, str], Any]]] = {
    **dict.fromkeys(("node", "to", "source", "into"), _get_ref),
    "description": _parse_description,
    "groups": _parse_groups,
    "reason": lambda body, name, at: _get_text(body, name, at, ""),
}
_PLAN_FIELDS: Final = {
    "scope_id",
    "scope_name",
    "created_at",
    "summary",
    "steps",
    "missing_descriptions",
    "missing_description_count",
    "degraded",
    "dropped",
}
