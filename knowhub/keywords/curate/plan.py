"""A plan of curation: its steps, and the JSON that a person can read and edit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from knowhub.core.errors import InvalidInput
from knowhub.keywords import keyword_rules
from knowhub.keywords.fields import parse_list, parse_text, prefix_errors

MAX_STEPS = 200
MAX_CHILDREN = 2_000
MAX_UNDESCRIBED = 200
_MAX_ID_CHARS = 200
_MAX_VERSION = 2**53


class StepKind(StrEnum):
    MOVE = "move"
    MERGE = "merge"
    DESCRIBE = "describe"
    SPLIT = "split"


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A keyword at the version that a step depends on; name and path are for the reader."""

    id: str
    version: int
    name: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """A new keyword below the split keyword, and the children that move below it."""

    name: str
    children: Sequence[NodeRef]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a plan. A move and a merge have two `nodes`, the second is the target; the others have one."""

    kind: StepKind
    nodes: Sequence[NodeRef]
    reason: str = ""
    description: str = ""
    groups: Sequence[SplitGroup] = ()

    def list_refs(self) -> list[NodeRef]:
        """Return every keyword that the step depends on."""
        return [*self.nodes, *(child for group in self.groups for child in group.children)]


# The names of a step's nodes in JSON, and of the field that it has beside them.
_NODE_NAMES: Final[Mapping[StepKind, Sequence[str]]] = {
    StepKind.MOVE: ("node", "to"),
    StepKind.MERGE: ("source", "into"),
    StepKind.DESCRIBE: ("node",),
    StepKind.SPLIT: ("node",),
}
_OWN_FIELDS: Final[Mapping[StepKind, str]] = {StepKind.DESCRIBE: "description", StepKind.SPLIT: "groups"}


def parse_steps(plan: Mapping[str, Any]) -> list[Step]:
    """Parse the steps of a plan that a person may have edited.

    Raises InvalidInput naming `plan.steps.<index>.<field>`, also for an unknown field.
    """
    _parse_object(plan, _PLAN_FIELDS, "plan")
    steps = _parse_bounded("plan.steps", plan.get("steps"), MAX_STEPS)
    parsed = [_parse_step(step, f"plan.steps.{index}") for index, step in enumerate(steps)]
    moved = sum(len(group.children) for step in parsed for group in step.groups)
    if moved > MAX_CHILDREN:
        raise InvalidInput.of("plan.steps", f"may move at most {MAX_CHILDREN} children in splits; these are {moved}")
    return parsed


def render_step(step: Step) -> dict[str, Any]:
    """Return a step as JSON; `parse_steps` reads it."""
    nodes = [{"id": node.id, "name": node.name, "path": node.path, "version": node.version} for node in step.nodes]
    own: dict[str, Any] = {}
    if step.kind is StepKind.DESCRIBE:
        own = {"description": step.description}
    if step.kind is StepKind.SPLIT:
        own = {"groups": [_render_group(group) for group in step.groups]}
    return {
        "kind": step.kind.value,
        **dict(zip(_NODE_NAMES[step.kind], nodes, strict=True)),
        **own,
        "reason": step.reason,
    }


def _render_group(group: SplitGroup) -> dict[str, Any]:
    # Without paths: a plan may have many children, and the path of each is that of the split keyword.
    children = [{"id": child.id, "name": child.name, "version": child.version} for child in group.children]
    return {"name": group.name, "children": children}


def _parse_step(step: object, at: str) -> Step:
    body = _parse_object(step, None, at)
    said = parse_text(f"{at}.kind", body.get("kind"))
    kind = next((kind for kind in StepKind if kind == said), None)
    if kind is None:
        raise InvalidInput.of(f"{at}.kind", f"{said!r} is no kind of step: use {', '.join(StepKind)}")
    names = _NODE_NAMES[kind]
    _parse_object(body, {"kind", "reason", *names, _OWN_FIELDS.get(kind, "kind")}, at)
    nodes = [_parse_ref(body.get(name), f"{at}.{name}") for name in names]
    step = Step(kind, nodes, parse_text(f"{at}.reason", body.get("reason", "")))
    if kind is StepKind.DESCRIBE:
        description = parse_text(f"{at}.description", body.get("description"))
        with prefix_errors(at):
            keyword_rules.check_description(description)
        return replace(step, description=description)
    return replace(step, groups=_parse_groups(body.get("groups"), f"{at}.groups")) if kind is StepKind.SPLIT else step


def _parse_groups(value: object, at: str) -> list[SplitGroup]:
    groups = _parse_bounded(at, value, MAX_CHILDREN)
    if not groups:
        raise InvalidInput.of(at, "must name at least one group; drop the step if nothing is to be split")
    return [_parse_group(group, f"{at}.{index}") for index, group in enumerate(groups)]


def _parse_group(value: object, at: str) -> SplitGroup:
    body = _parse_object(value, {"name", "children"}, at)
    name = parse_text(f"{at}.name", body.get("name"))
    with prefix_errors(at):
        keyword_rules.check_length("name", name)
    children = _parse_bounded(f"{at}.children", body.get("children"), MAX_CHILDREN)
    if not children:
        raise InvalidInput.of(f"{at}.children", "must name at least one child; drop the group if it is to be empty")
    return SplitGroup(name, [_parse_ref(child, f"{at}.children.{index}") for index, child in enumerate(children)])


def _parse_ref(value: object, at: str) -> NodeRef:
    body = _parse_object(value, {"id", "version", "name", "path"}, at)
    keyword_id, version = parse_text(f"{at}.id", body.get("id")), body.get("version")
    if not 0 < len(keyword_id) <= _MAX_ID_CHARS:
        raise InvalidInput.of(f"{at}.id", "must be the id of a keyword")
    if not isinstance(version, int) or isinstance(version, bool) or not 0 < version <= _MAX_VERSION:
        raise InvalidInput.of(f"{at}.version", "must be the version that the plan depends on, an integer from 1")
    name, path = (parse_text(f"{at}.{field}", body.get(field, "")) for field in ("name", "path"))
    return NodeRef(keyword_id, version, name, path)


def _parse_bounded(at: str, value: object, limit: int) -> Sequence[Any]:
    items = parse_list(at, value)
    if len(items) > limit:
        raise InvalidInput.of(at, f"must have at most {limit} entries; these are {len(items)}")
    return items


def _parse_object(value: object, known: set[str] | None, at: str) -> Mapping[str, Any]:
    """Return an object that has only `known` fields, or any."""
    if not isinstance(value, Mapping):
        raise InvalidInput.of(at, "must be an object")
    for name in value:
        if known is not None and name not in known:
            raise InvalidInput.of(f"{at}.{name}", f"is not known here; known are: {', '.join(sorted(known))}")
    return value


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
