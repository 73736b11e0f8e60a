"""KnowHub output that was saved again is recognised by its words, its format or its source."""

import json

import pytest

from agent_tools import records
from knowhub.audit.quotes import (
    QuoteIndex,
    find_rendering,
    find_search_source,
    match_quote,
    normalize_quote,
)

API = "http://127.0.0.1:8000/api/knowledge"
ADVICE = "Wait for the element to be clickable before you click it, and never sleep for a fixed time."
RATSCHLAG = "部署之前先备份数据库，然后再运行迁移脚本，最后检查健康状态是否正常，出错就回滚到上一个版本。"
RECORD = {
    "id": "knowledge-20261121-a3f9",
    "types": ["tool"],
    "task": "Log in with Selenium",
    "content": ADVICE + "\n" + RATSCHLAG,
    "quality_score": 4.0,
    "eval": {"score": 3, "helpful": 1, "harmful": 0, "confidence": 0.5},
}


def measure_quote(earlier: str, later: str) -> float | None:
    """Return the share of the earlier text that is found as a quote in the later one."""
    anchors = QuoteIndex()
    anchors.put(0, normalize_quote(earlier))
    hits = anchors.find_candidates(normalize_quote(later))
    found = [match_quote(normalize_quote(earlier), normalize_quote(later), hit) for hit in hits]
    return next((item.share for item in found if item is not None), None)


@pytest.mark.parametrize(
    "later",
    [
        f"From the knowledge base: {ADVICE}",
        f"{ADVICE} This helped when logging in.",
        f"I LEARNED THAT {ADVICE.upper()}",
        "> " + ADVICE.replace("you", "you\n>") + "\n\nso I did",
        json.dumps({"remembered": ADVICE, "n": 1}),
    ],
)
def test_a_text_that_quotes_an_earlier_one_in_full_is_found(later: str) -> None:
    assert measure_quote(ADVICE, later) == 1.0


def test_a_chinese_quote_is_found_with_half_as_many_characters() -> None:
    assert len(RATSCHLAG) < 60
    assert measure_quote(RATSCHLAG, f"根据知识库的记录：{RATSCHLAG}这次也照做了。") == 1.0
    assert measure_quote(RATSCHLAG[:24], f"根据知识库的记录：{RATSCHLAG[:24]}这次也照做了。") is None


def test_a_cut_or_embedded_quote_is_measured_by_its_share() -> None:
    begun = ADVICE[:70]

    cut = measure_quote(ADVICE, f"Remembered: {begun}[…21 more characters] end")
    among = measure_quote(ADVICE, f"{begun} -- {'and other things were said too ' * 3}")

    assert cut == among == pytest.approx(70 / len(ADVICE), abs=1e-3)


@pytest.mark.parametrize(
    "later",
    [
        ADVICE,
        ADVICE.replace("fixed", "given"),
        ADVICE[:40] + " some other end of the sentence which is not in the first one at all, as it is new.",
        "Wait for the network to be idle before you take the picture, and never trust a fixed time.",
        "",
    ],
)
def test_copies_edits_and_common_phrases_are_not_quotes(later: str) -> None:
    assert measure_quote(ADVICE, later) is None


def test_less_than_three_fifths_of_a_text_is_not_a_quote() -> None:
    around = " and something else that is said nowhere before" * 4

    assert measure_quote(f"{ADVICE} {RATSCHLAG} {ADVICE.upper()[::-1]}", ADVICE + around) is None
    assert measure_quote(f"{ADVICE} {RATSCHLAG}", ADVICE + around) is not None


def test_short_texts_are_never_quotes() -> None:
    assert measure_quote("Use the staging key.", "I was told: Use the staging key. So I used the staging key.") is None


def test_tool_output_is_recognised_when_it_is_saved() -> None:
    shown = records.format_records([RECORD])

    whole, part = find_rendering(f"I found this:\n{shown}"), find_rendering(shown.split("\n\n", 1)[1])

    assert whole is not None
    assert part is not None
    assert (whole.how, whole.ids) == ("tool_output", [RECORD["id"]])
    assert (part.how, part.ids) == ("tool_output", [RECORD["id"]])


def test_an_api_answer_is_recognised_when_it_is_saved() -> None:
    answer = json.dumps({"results": [RECORD], "count": 1}, ensure_ascii=False)

    for text in (answer, json.dumps({"seen": answer})):
        found = find_rendering(text)

        assert found is not None
        assert (found.how, found.ids) == ("api_answer", [RECORD["id"]])


@pytest.mark.parametrize(
    "text",
    [
        "This corrects knowledge-20261121-a3f9, which was wrong about the port.",
        "| id | name |\n| 1: a | b |",
        'The field "quality_score": is computed by the server.',
        "quality: high, task: none, content: empty",
        "参见 knowledge-20261121-a3f9。",
    ],
)
def test_references_and_tables_are_not_renderings(text: str) -> None:
    assert find_rendering(text) is None


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ({"name": "knowledge_search", "urls": []}, "knowledge_search"),
        ({"name": "KnowHub", "urls": []}, "KnowHub"),
        ({"name": None, "urls": [f"{API}/knowledge-1"]}, f"{API}/knowledge-1"),
        ({"name": "Selenium docs", "urls": ["https://selenium.dev/api/known"]}, None),
        ({"name": None, "urls": None}, None),
    ],
)
def test_a_source_that_is_knowhub_itself_is_named(source: dict[str, object], named: str | None) -> None:
    assert find_search_source(source) == named
