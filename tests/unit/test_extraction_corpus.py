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
from knowhub.knowledge.extract.model import Trigger
from knowhub.knowledge.extract.rules import by_rules
from tests.scores import Score

UTTERANCES = Path(__file__).parents[1] / "data" / "utterances.jsonl"


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in UTTERANCES.read_text(encoding="utf-8").splitlines()]


def score(chosen: Iterable[Mapping[str, Any]]) -> Score:
    counted = Score()
    for line in chosen:
        left = [one.split("|") for one in line["expect"]]
        for candidate in by_rules([Message(**one) for one in line["messages"]], Trigger.COMPACTION):
            meant = next((one for one in left if candidate.category in one), None)
            if meant is None:
                counted.wrong += 1
            else:
                left.remove(meant)
                counted.right += 1
        counted.missed += len(left)
    return counted


def is_chinese(line: Mapping[str, Any]) -> bool:
    return any("\u4e00" <= char <= "\u9fff" for char in line["messages"][-1]["content"])


def test_the_corpus_is_large_and_half_of_it_says_nothing_that_lasts() -> None:
    corpus = lines()

    assert len(corpus) >= 400
    assert 0.4 < sum(1 for line in corpus if line["expect"]) / len(corpus) < 0.6
    assert sum(1 for line in corpus if line["held"]) >= len(corpus) / 3


@pytest.mark.parametrize("held", [True, False], ids=["held back", "seen"])
def test_nine_of_ten_candidates_are_right_and_seven_of_ten_statements_are_found(held: bool) -> None:
    counted = score(line for line in lines() if line["held"] is held)

    assert counted.precision >= 0.9
    assert counted.recall >= 0.7


@pytest.mark.parametrize("chinese", [True, False], ids=["zh", "en"])
def test_both_languages_are_understood(chinese: bool) -> None:
    counted = score(line for line in lines() if is_chinese(line) is chinese)

    assert counted.precision >= 0.9
    assert counted.recall >= 0.7


def test_the_score_counts_what_is_wrong_and_what_is_missed() -> None:
    said = {"messages": [{"role": "user", "content": "I prefer tabs over spaces."}]}

    counted = score([{**said, "expect": []}, {**said, "expect": ["preference", "habit"]}])

    assert (counted.right, counted.wrong, counted.missed) == (1, 1, 1)
