"""A plan as JSON: people can read and edit it, and other JSON is refused."""

from typing import Any

import pytest

from knowhub.core.errors import InvalidInput
from knowhub.keywords.curate.plan import (
    MAX_CHILDREN,
    MAX_STEPS,
    NodeRef,
    SplitGroup,
    Step,
    StepKind,
    parse_steps,
    render_step,
)

A, B, C = (NodeRef(name, 3, name.upper(), f"root / {name.upper()}") for name in "abc")
CHILD = NodeRef("d", 1, "D")
STEPS: list[Step] = [
    Step(StepKind.MOVE, [A, B], "it belongs there"),
    Step(StepKind.MERGE, [A, C], "they are one"),
    Step(StepKind.DESCRIBE, [B], "by the model", "What B covers."),
    Step(StepKind.SPLIT, [C], "too wide", groups=[SplitGroup("Docker", [CHILD])]),
]


def plan_of(*steps: object) -> dict[str, Any]:
    return {"steps": list(steps)}


def ref(keyword_id: object = "a", version: object = 1, **fields: object) -> dict[str, object]:
    return {"id": keyword_id, "version": version} | fields


def move(**fields: object) -> dict[str, object]:
    return {"kind": "move", "node": ref("a"), "to": ref("b")} | fields


def split(*groups: object) -> dict[str, object]:
    return {"kind": "split", "node": ref("a"), "groups": list(groups)}


def test_rendered_steps_parse_to_the_same_steps() -> None:
    assert parse_steps(plan_of(*map(render_step, STEPS))) == STEPS


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        ({}, "plan.steps"),
        ({"steps": {}}, "plan.steps"),
        ({"steps": [], "step": []}, "plan.step"),
        (plan_of("move"), "plan.steps.0"),
        (plan_of({}), "plan.steps.0.kind"),
        (plan_of(move(), {"kind": "delete"}), "plan.steps.1.kind"),
        (plan_of(move(kind=["move"])), "plan.steps.0.kind"),
        (plan_of(move(to=None)), "plan.steps.0.to"),
        (plan_of(move(into=ref())), "plan.steps.0.into"),
        (plan_of(move(reason=7)), "plan.steps.0.reason"),
        (plan_of(move(node={"id": "a"})), "plan.steps.0.node.version"),
        (plan_of(move(node=ref(version=True))), "plan.steps.0.node.version"),
        (plan_of(move(node=ref(version=0))), "plan.steps.0.node.version"),
        (plan_of(move(node=ref(version=1.0))), "plan.steps.0.node.version"),
        (plan_of(move(node=ref(version=10**400))), "plan.steps.0.node.version"),
        (plan_of(move(node=ref(7))), "plan.steps.0.node.id"),
        (plan_of(move(node=ref(""))), "plan.steps.0.node.id"),
        (plan_of(move(node=ref("a" * 201))), "plan.steps.0.node.id"),
        (plan_of(move(node=ref("a\ud800"))), "plan.steps.0.node.id"),
        (plan_of(move(node=ref(parent="b"))), "plan.steps.0.node.parent"),
        (plan_of({"kind": "describe", "node": ref(), "description": "x" * 4_097}), "plan.steps.0.description"),
        (plan_of({"kind": "describe", "node": ref()}), "plan.steps.0.description"),
        (plan_of({"kind": "merge", "source": ref()}), "plan.steps.0.into"),
        (plan_of({"kind": "merge", "source": ref(), "into": ref(), "to": ref()}), "plan.steps.0.to"),
        (plan_of({"kind": "describe", "node": ref(), "description": "x", "name": "y"}), "plan.steps.0.name"),
        (plan_of({**split({"name": "G", "children": [ref()]}), "children": []}), "plan.steps.0.children"),
        (plan_of(split()), "plan.steps.0.groups"),
        (plan_of(split({"name": "G", "children": []})), "plan.steps.0.groups.0.children"),
        (plan_of(split({"name": " ", "children": [ref()]})), "plan.steps.0.groups.0.name"),
        (plan_of(split({"name": "x" * 201, "children": [ref()]})), "plan.steps.0.groups.0.name"),
        (plan_of(split({"name": "G", "children": [ref(), 7]})), "plan.steps.0.groups.0.children.1"),
        (plan_of(*[move()] * (MAX_STEPS + 1)), "plan.steps"),
        (plan_of(*[split({"name": "G", "children": [ref()] * MAX_CHILDREN})] * 2), "plan.steps"),
    ],
)
def test_an_invalid_plan_is_refused_with_its_field(plan: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_steps(plan)

    assert [error.field for error in refused.value.errors] == [field]
