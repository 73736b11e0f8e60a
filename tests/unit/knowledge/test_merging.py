"""Merging records: their texts, their evidence, and the fields that stay."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from knowhub.core.errors import InvalidInput
from knowhub.core.near_duplicates import normalize_text
from knowhub.knowledge.evolve.merging import (
    MAX_MERGED_CHARS,
    has_same_sentence,
    join_contents,
    merge_evaluation,
    merge_rows,
)
from knowhub.knowledge.facts import find_missing_facts
from tests.builders import START, knowledge_row


def make_row(content: str, task: str = "", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field
    return knowledge_row(fields.pop("row_id", content or "row"), content=content, task=task, **fields)


@pytest.mark.parametrize(
    ("survivor", "sources", "joined"),
    [
        ("Use port 8080.", ["  Ｕｓｅ\u3000port 8080.\n"], "Use port 8080."),
        ("tar -c dir", ["tar -C dir"], "tar -c dir\ntar -C dir"),
        ("foo bar", ["foo  bar"], "foo bar\nfoo  bar"),
        ("x² + 1", ["x2 + 1"], "x² + 1\nx2 + 1"),
        ("if a:\n    b\n    c", ["if a:\n    b\nc"], "if a:\n    b\n    c\nc"),
        ("if a:\n    b\nc", ["if a:\n    b\n    c"], "if a:\n    b\nc\nif a:\n    b\n    c"),
        ("Use port 8080.", ["Use port 8081."], "Use port 8080.\nUse port 8081."),
        ("A. C.", ["A. B. C."], "A. B. C."),
        ("A. C.", ["B. C.", "C. D.", "A. E. D."], "A. B. C.\nE.\nD."),
        ("1. open\n2. close", ["1. open\nwait\n2. close"], "1. open\nwait\n2. close"),
        ("Rinse the jug. Never bleach.", ["Wait. Rinse the jug."], "Wait. Rinse the jug. Never bleach."),
        ("Wait. Click.", ["wait, click."], "Wait. Click.\nwait, click."),
        ("Wait. Click.", ["wait. Open. Click. Wait. Close."], "Wait. Open. Click.\nWait.\nClose."),
        ("冲洗水壶。千万别漂白。", ["冲洗水壶。等十分钟。千万别漂白。"], "冲洗水壶。等十分钟。千万别漂白。"),
        ("f:\n    a\n    c", ["f:\n    a\n    b\n    c"] * 2, "f:\n    a\n    c\nf:\n    a\n    b\n    c"),
        ("等元素出现。再点击。", ["再点击。最多等 20 秒。"], "等元素出现。再点击。\n最多等 20 秒。"),
        ("see a.example.com v1.2", ["see a.example.com v1.3"], "see a.example.com v1.2\nsee a.example.com v1.3"),
        ("A.", ["B.", "B.", "C."], "A.\nB.\nC."),
        ("", ["B."], "B."),
        ("A.  \n", [" A."], "A.  \n"),
        ("等待元素出现再点击", ["等待元素出现，再点击。"], "等待元素出现再点击"),
        ("Wait, then click", ["Wait then click."], "Wait, then click"),
        ("use v1.2", ["use v12"], "use v1.2\nuse v12"),
    ],
)
def test_sentences_of_a_source_are_added_in_the_order_of_every_text(
    survivor: str, sources: list[str], joined: str
) -> None:
    assert join_contents(make_row(survivor, "t"), [make_row(source, "t") for source in sources]) == joined


def test_a_different_task_precedes_its_content() -> None:
    survivor, source = make_row("Wait.", "Log in to A"), make_row("Wait. Use the token.", "Log in to B")

    assert join_contents(survivor, [source]) == "Wait.\nLog in to B\nUse the token."


@pytest.mark.parametrize("source", ["B. A.", "B. C. A.", "a. C. b. A."])
def test_texts_that_contradict_each_others_order_are_not_joined(source: str) -> None:
    assert (join_contents(make_row("A. B."), [make_row(source)]) is None) == (source != "a. C. b. A.")


SENTENCES = st.lists(st.text("ab1 .\n。", min_size=1, max_size=12), min_size=1, max_size=5).map(" ".join)


@given(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_the_merged_text_has_every_word_of_every_source(survivor: str, sources: list[str]) -> None:
    survivor_row, *rows = [{"task": "", "content": text} for text in (survivor, *sources)]
    joined = join_contents(survivor_row, rows)
    assume(joined is not None)

    def list_words(text: str) -> set[str]:
        return {word.rstrip(".") for word in normalize_text(text).replace("。", " ").split()} - {""}

    for text in (survivor, *sources):
        assert list_words(text) <= list_words(joined or "")


STEPS = st.lists(st.sampled_from("abcdef"), max_size=6).map(lambda names: " ".join(f"{name}." for name in names))


@given(STEPS, st.lists(STEPS, max_size=4))
@settings(max_examples=200, deadline=None)
def test_the_merged_text_keeps_the_order_of_every_text(survivor: str, sources: list[str]) -> None:
    survivor_row, *rows = [{"task": "", "content": text} for text in (survivor, *sources)]
    joined = join_contents(survivor_row, rows)
    assume(joined is not None)

    for text in (survivor, *sources):
        rest = iter((joined or "").split())
        assert all(step in rest for step in text.split())


def test_cases_are_ordered_by_time_and_limited_to_the_newest_fifty() -> None:
    old = [{"task": f"a{number}", "timestamp": f"2026-01-01T00:00:{number:02}Z"} for number in range(40)]
    new = [{"task": f"b{number}", "timestamp": f"2026-01-01T00:00:{number:02}Z"} for number in range(40)]

    fresh = knowledge_row()["eval"]

    joined = merge_evaluation(fresh | {"helpful_history": old}, [fresh | {"helpful_history": new}], START)

    shown = [case["task"] for case in joined["helpful_history"]]
    assert (len(shown), shown[0], shown[-2:]) == (50, "a15", ["a39", "b39"])


@pytest.mark.parametrize(
    "source",
    [
        {"content": "B" * MAX_MERGED_CHARS},
        {"content": "B", "resource_ids": [f"r-{number}" for number in range(51)]},
        {"content": "B", "tags": {f"t{number}": "x" for number in range(51)}},
        {"content": "B", "tags": {"t": [f"{number}" for number in range(51)]}},
    ],
    ids=["text", "resources", "tags", "values"],
)
def test_a_merge_larger_than_a_record_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="would be more than"):
        merge_rows(make_row("A."), [make_row(**source)], None, START)


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ("Wait, never use headless mode.", "Wait. Use headless mode.", ["“never use headless mode”"]),
        ("Wait, never use headless mode.", "Wait; do not run it in headless mode!", []),
        ("Never sleep, and not here.", "Sleep; never mind what they do not like.", ["“never sleep”", "“and not here”"]),
        ("You must not push to main.", "Push to main, do not wait.", ["“you must not push to main”"]),
        ("It doesn’t need a token.", "It needs a token.", ["“it doesn’t need a token”"]),
        ("admins only may approve it", "admins may approve it", ["“admins only may approve it”"]),
        ("不要使用无头模式，等待元素。", "使用无头模式，等待元素。", ["“不要使用无头模式”"]),
        ("禁止在生产环境重启", "不要在生产环境重启。", []),
        ("只能由管理员审批", "由管理员审批", ["“只能由管理员审批”"]),
        ("ask Alice, or use PostgreSQL", "ask her", ["Alice", "PostgreSQL"]),
        ("PostgreSQL is used. Wait for Li.", "Postgresql: wait for the Listener", ["Li"]),
        ("Use pnpm. Wait here.", "pnpm", []),
        ("询问Alice，再用 Selenium 点击", "再点击", ["Alice", "Selenium"]),
        ('press "Save as" or 「保存」 or “Done”', "press save as", ["保存", "done", "Done"]),
        ("listen on v2.3", "listen", ["v2.3"]),
    ],
)
def test_facts_missing_in_a_new_text_are_named(before: str, after: str, lost: list[str]) -> None:
    assert find_missing_facts([after, before], after) == lost


@pytest.mark.parametrize(
    ("task", "other", "added"),
    [
        ("Descale the kettle", "descale the kettle.", ""),
        ("Descale The Kettle", "DESCALE the kettle!", ""),
        ("use tar -c", "use tar -C", "\nuse tar -C"),
    ],
)
def test_a_task_is_the_same_in_other_case_unless_a_letter_alone_differs(task: str, other: str, added: str) -> None:
    survivor, source = make_row("Boil vinegar.", task), make_row("Boil vinegar.", other)

    assert join_contents(survivor, [source]) == f"Boil vinegar.{added}"
    assert not has_same_sentence(survivor, source)
