"""The page on the keyword tree shows what a model is really asked: the schemas and texts of the code."""

import json
import re
from pathlib import Path

import pytest

from knowhub.keywords.search import prompts

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "keyword-tree.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^### (\w+)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
SECTIONS = dict(SECTION.findall(PAGE))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("function", sorted(prompts.SCHEMAS))
def test_the_page_shows_the_schema_of_each_function(function: str) -> None:
    shown = [json.loads(block) for block in blocks(SECTIONS[function], "json")]

    assert prompts.SCHEMAS[function] in shown


@pytest.mark.parametrize("name", ["_DISAMBIGUATE", "_REORGANIZE", "_CANDIDATES"])
def test_the_page_shows_the_texts_as_they_are_sent(name: str) -> None:
    text = " ".join(getattr(prompts, name).split())

    assert text in " ".join(PAGE.split())
