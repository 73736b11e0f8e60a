"""The CamelCase methods: the snake_case methods, with parameters of their own where these differ."""

import inspect
from pathlib import Path

import pytest

from knowhub.sdk import KeywordTree, LongTermMemory, RelationType
from knowhub.sdk.keyword_methods import KeywordMethods
from knowhub.sdk.keyword_tree import CamelCaseMethods


def test_every_method_has_a_camel_case_name() -> None:
    names = [name for name in vars(KeywordMethods) if not name.startswith("_")]
    spelt = {"".join(map(str.capitalize, name.split("_"))) for name in names}

    assert spelt <= {name for name, method in vars(CamelCaseMethods).items() if callable(method)}
    assert len(names) >= 28


@pytest.mark.parametrize("name", sorted(name for name in vars(CamelCaseMethods) if name[0].isupper()))
def test_every_parameter_can_be_positional(name: str) -> None:
    method = vars(CamelCaseMethods)[name]
    kinds = {item.kind for item in inspect.signature(method).parameters.values()} if callable(method) else set()

    assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Search", {"query": inspect.Parameter.empty, "llm_expand_query": True, "llm_disambiguate": None}),
        (
            "CreateKeyword",
            {
                "name": inspect.Parameter.empty,
                "parent_id": None,
                "aliases": None,
                "description": "",
                "llm_auto_place": True,
                "llm_dedup_check": None,
            },
        ),
        (
            "LinkInfo",
            {
                "info_id": inspect.Parameter.empty,
                "keyword_id": inspect.Parameter.empty,
                "relation": RelationType.PRIMARY,
                "created_by": "user",
            },
        ),
    ],
)
@pytest.mark.parametrize("owner", [KeywordTree, LongTermMemory])
def test_a_method_has_the_parameters_that_callers_know(owner: type, name: str, parameters: dict[str, object]) -> None:
    declared = list(inspect.signature(getattr(owner, name)).parameters.values())[1:]

    assert {parameter.name: parameter.default for parameter in declared} == parameters
    assert {parameter.kind for parameter in declared} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_both_spellings_work_on_the_same_tree(tmp_path: Path) -> None:
    with KeywordTree(str(tmp_path)) as tree:
        python = tree.create_keyword("Python", parent_id="root")
        info = tree.create_info("PEP 8")
        tree.link_info(info.id, python.id)

        memory = LongTermMemory(tree)

        assert memory.GetKeyword(python.id) == python
        assert memory.GetKeywordsOfInfo(info.id) == [(tree.get_path(python.id)[-1], RelationType.RELATED)]
        assert memory.DeleteKeyword(python.id) == memory.LastOperationId == tree.last_operation_id
