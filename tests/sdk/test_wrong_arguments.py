"""What is no argument of a verb of the tree is refused by the name of its field, and nothing is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowhub.core.errors import InvalidInput
from knowhub.sdk import KeywordTree


def nest_lists(depth: int) -> list[Any]:
    """Return lists within each other, more than a text can be made of."""
    outer: list[Any] = []
    for _ in range(depth):
        outer = [outer]
    return outer


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda tree, keyword, info, wrong: tree.UpdateKeyword(keyword, wrong, 1), "patch"),
        (lambda tree, keyword, info, wrong: tree.UpdateInfo(info, wrong), "patch"),
        (lambda tree, keyword, info, wrong: tree.GetInfosOfKeyword(keyword, wrong), "relation"),
        (lambda tree, keyword, info, wrong: tree.LinkInfo(info, keyword, wrong), "relation"),
        (lambda tree, keyword, info, wrong: tree.DeleteKeyword(keyword, False, wrong), "info_policy"),
    ],
    ids=["keyword", "info", "page", "link", "policy"],
)
@pytest.mark.parametrize("wrong", [7, "no such word", ["name"], nest_lists(5_000), "x" * 1_000_000], ids=lambda _: "")
def test_a_wrong_argument_is_named_in_few_words(
    tmp_path: Path, call: Callable[[KeywordTree, str, str, object], object], field: str, wrong: object
) -> None:
    with KeywordTree(str(tmp_path)) as tree:
        keyword = tree.CreateKeyword("Python", llm_auto_place=False)
        info = tree.CreateInfo("a language", keyword_ids=[keyword.id])

        with pytest.raises(InvalidInput) as refused:
            call(tree, keyword.id, info.id, wrong)

        assert [error.field for error in refused.value.errors] == [field]
        assert len(refused.value.detail) < 200
        assert tree.GetKeyword(keyword.id) == keyword
        assert tree.GetInfosOfKeyword(keyword.id) == [info]
