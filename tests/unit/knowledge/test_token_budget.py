"""Tokens by estimate, and what fits a budget of them."""

import pytest

from knowhub.knowledge.search.retrieval import estimate_tokens, select_within, truncate_to


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("wait", 1),
        ("waits", 2),
        ("Wait for the element before clicking it.", 10),
        ("等待元素出现", 6),
        ("設定，延遲。", 6),
        ("использовать", 6),
        ("用 Selenium 登录", 1 + 3 + 2),
        ("🙂🙂", 2),
        ("한국어", 3),
    ],
)
def test_a_character_of_chinese_is_a_token_and_four_of_english_are_one(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize(
    "text", ["wait for the element " * 20, "等待元素的出现，再点击它。" * 20, "用 Selenium 登录 website " * 20]
)
@pytest.mark.parametrize("tokens", [1, 2, 7, 50])
def test_a_cut_text_is_a_beginning_that_costs_no_more_and_could_hardly_be_longer(text: str, tokens: int) -> None:
    cut = truncate_to(text, tokens)

    kept = cut.removesuffix("…")
    assert text.startswith(kept)
    assert estimate_tokens(cut) <= tokens
    assert estimate_tokens(text[: len(kept) + 1] + "…") > tokens


def test_what_fits_is_not_cut_and_nothing_at_all_is_left_of_no_budget() -> None:
    assert truncate_to("wait for it", 3) == "wait for it"
    assert truncate_to("wait for it", 0) == ""


@pytest.mark.parametrize(
    ("costs", "budget", "kept"),
    [
        ([], 10, []),
        ([4, 4, 4], 12, [0, 1, 2]),
        ([4, 4, 4], 11, [0, 1]),
        ([4, 9, 4], 8, [0, 2]),
        ([20, 1, 1], 10, [0]),
    ],
)
def test_the_first_is_always_kept_and_what_does_not_fit_makes_room_for_what_does(
    costs: list[int], budget: int, kept: list[int]
) -> None:
    assert select_within(costs, budget) == kept
