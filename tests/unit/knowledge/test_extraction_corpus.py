"""What the rules find without a model, on labelled utterances in Chinese and English (`tests/data/utterances.jsonl`).

A line is a conversation, what is to be found in it (`preference|constraint`: either will do), and whether it was held
back: rules were never changed for what they did on a line that was.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from knowhub.conversations.messages import Message
from knowhub.knowledge.extract.reading import find_candidates
from tests.scores import Score

UTTERANCES = Path(__file__).parents[2] / "data" / "utterances.jsonl"


def read_lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in UTTERANCES.read_text(encoding="utf-8").splitlines()]


def count_matches(chosen: Iterable[Mapping[str, Any]]) -> Score:
    """Count found statements in lines with a lasting statement, of any kind."""
    counted = Score()
    for line in chosen:
        found = len(find_candidates([Message(**message) for message in line["messages"]]))
        right = min(found, len(line["expect"]))
        counted.right += right
        counted.wrong += found - right
        counted.missed += len(line["expect"]) - right
    return counted


def is_chinese(line: Mapping[str, Any]) -> bool:
    return any("\u4e00" <= char <= "\u9fff" for char in line["messages"][-1]["content"])


def test_half_of_the_corpus_has_no_lasting_statement() -> None:
    corpus = read_lines()

    assert len(corpus) >= 400
    assert 0.4 < sum(1 for line in corpus if line["expect"]) / len(corpus) < 0.6
    assert sum(1 for line in corpus if line["held"]) >= len(corpus) / 3


@pytest.mark.parametrize("held", [True, False], ids=["held back", "seen"])
@pytest.mark.parametrize("chinese", [True, False], ids=["zh", "en"])
def test_found_statements_are_nearly_always_right_in_both_languages(held: bool, chinese: bool) -> None:
    counted = count_matches(line for line in read_lines() if line["held"] is held and is_chinese(line) is chinese)

    assert counted.precision >= 0.95
    assert counted.recall >= 0.25
