"""When two statements of a user say the same, and when they contradict each other, by their words alone."""

import pytest

from knowhub.conversations.comparison import SAME, compute_similarity, is_conflict
from knowhub.conversations.statements import parse_statement
from knowhub.knowledge.extract.model import CandidateCategory
from knowhub.knowledge.extract.profile import is_exclusive, is_related, merge_content
from knowhub.search.analysis import simplify

SAME_PAIRS = [
    ("我更习惯用 TypeScript 而不是 JavaScript。", "我喜欢用 TypeScript"),
    ("I prefer tabs over spaces.", "I really like tabs"),
    ("请以后都用中文回答我。", "Please always answer in Chinese from now on."),
    ("我喜欢简洁的代码，不要写多余的注释。", "我更喜欢简洁代码"),
    ("我是一名后端工程师", "我是后端工程师"),
    ("I prefer concise answers", "I like short answers"),
    ("Never use emojis", "不要用表情符号"),
    ("I always run tests before the commit.", "I always commit after the tests run."),
    ("My name is Ana.", "My name is Ana Costa."),
    ("我叫小李。", "我的名字叫小李。"),
    ("我对花生不过敏。", "其实我对花生不过敏"),
]
OPPOSITES = [
    ("我喜欢用 TypeScript", "以后不要用 TypeScript 了"),
    ("I prefer tabs over spaces", "I prefer spaces over tabs"),
    ("请以后都用中文回答我", "From now on answer in English, not Chinese"),
    ("Please always answer in Chinese", "请以后都用英文回答我"),
    ("I am a data scientist", "I'm no longer a data scientist"),
    ("I don't like dark mode", "I like dark mode"),
    ("预算不能超过五万块", "预算不能超过八万块"),
    ("The deadline is March 15", "The deadline is March 20"),
    ("We use MySQL", "No, it should be PostgreSQL, not MySQL."),
    ("我们用 npm", "不是 npm，是 pnpm。"),
    ("我对花生过敏。", "我对花生不过敏。"),
    ("I am allergic to peanuts.", "I am not allergic to peanuts."),
    ("我吃素。", "我不吃素。"),
    ("I'm vegetarian.", "I'm no longer vegetarian."),
    ("我喜欢在提交之前跑测试。", "我喜欢在提交之后跑测试。"),
    ("I always review before merging.", "I always review after merging."),
    ("I prefer more comments in code.", "I prefer fewer comments in code."),
    ("I like answers with examples.", "I like answers without examples."),
    ("I prefer answers with code first, then text.", "I prefer answers with text first, then code."),
    ("我喜欢先写代码，再写文档。", "我喜欢先写文档，再写代码。"),
    ("Alice must approve all deployments to Bob.", "Bob must approve all deployments to Alice."),
    ("I usually work mornings.", "I usually work evenings."),
    ("I work as a nurse in Porto.", "I work as a teacher in Porto."),
    ("My name is Ana Costa.", "My name is Eva Costa."),
    ("I live in Berlin.", "I live in Munich now."),
    ("我住在上海。", "我现在住在北京。"),
    ("以后叫我小李。", "以后叫我老李。"),
    ("My timezone is UTC+2.", "My timezone is UTC+8."),
]
STRANGERS = [
    ("I always use Postgres for the frontend work", "I always use MongoDB for the frontend work"),
    ("I live in Berlin.", "I live in a small flat with two cats."),
    ("I prefer more tests", "I prefer fewer meetings"),
    ("Our team eats lunch in the office", "Our team eats dinner in the office"),
    ("我喜欢喝茶", "我喜欢喝咖啡"),
    ("I like Python", "I prefer short functions with type hints"),
    ("I prefer TypeScript over JavaScript", "I like JavaScript"),
    ("请用中文回答", "请用中文写注释和提交信息"),
    ("My timezone is UTC+8", "My editor is Vim"),
]


@pytest.mark.parametrize(("stored", "said"), SAME_PAIRS)
def test_the_same_wish_in_other_words_is_the_same(stored: str, said: str) -> None:
    assert compute_similarity(parse_statement(said), parse_statement(stored)) >= SAME


@pytest.mark.parametrize(("stored", "said"), OPPOSITES)
def test_an_opposite_wish_is_against_it_and_not_like_it(stored: str, said: str) -> None:
    assert is_conflict(parse_statement(said), parse_statement(stored))
    assert compute_similarity(parse_statement(said), parse_statement(stored)) == 0


@pytest.mark.parametrize(("stored", "said"), STRANGERS)
def test_two_matters_have_nothing_to_do_with_each_other(stored: str, said: str) -> None:
    assert not is_conflict(parse_statement(said), parse_statement(stored))
    assert compute_similarity(parse_statement(said), parse_statement(stored)) < SAME


TOGETHER = [
    (CandidateCategory.BACKGROUND, "I speak English.", "I speak Chinese."),
    (CandidateCategory.HABIT, "I have a meeting every Monday.", "I have a meeting every Friday."),
    (CandidateCategory.HABIT, "I always use npm for frontend.", "I always use yarn for frontend."),
    (CandidateCategory.PREFERENCE, "Always run tests on Python 3.10.", "Always run tests on Python 3.12."),
]
INSTEAD = [
    (CandidateCategory.PREFERENCE, "Always answer in Chinese.", "Always answer in English."),
    (CandidateCategory.PREFERENCE, "Always run tests on Python 3.10.", "From now on always run tests on Python 3.12."),
    (CandidateCategory.HABIT, "I always use tabs.", "I always use spaces."),
    (CandidateCategory.CONSTRAINT, "My budget is 500 euros.", "My budget is 800 euros."),
    (CandidateCategory.CORRECTION, "I speak English.", "No, I speak Chinese."),
]


@pytest.mark.parametrize(("category", "stored", "said"), TOGETHER)
def test_what_goes_together_is_neither_against_nor_the_same(
    category: CandidateCategory, stored: str, said: str
) -> None:
    exclusive = is_exclusive(category, said)

    assert not is_conflict(parse_statement(said), parse_statement(stored), is_exclusive=exclusive)
    assert compute_similarity(parse_statement(said), parse_statement(stored)) < SAME


@pytest.mark.parametrize(("category", "stored", "said"), INSTEAD)
def test_of_what_there_can_be_but_one_the_last_word_counts(category: CandidateCategory, stored: str, said: str) -> None:
    assert is_conflict(parse_statement(said), parse_statement(stored), is_exclusive=is_exclusive(category, said))


def test_a_record_said_again_as_it_was_shown_is_not_nested() -> None:
    said = "The user said: content: The user said: I prefer tabs in Go"

    assert merge_content("The user said: I prefer tabs", said) == "The user said: I prefer tabs in Go"


def test_what_was_said_completes_what_is_stored_and_never_repeats_it() -> None:
    assert merge_content("I prefer tabs", "I prefer tabs") == "I prefer tabs"
    assert merge_content("I prefer tabs", "I prefer tabs in Go code") == "I prefer tabs in Go code"
    assert merge_content("I prefer tabs in Go", "I prefer tabs in C") == "I prefer tabs in Go\nI prefer tabs in C"
    assert merge_content("word " * 399, "I prefer tabs") == "word " * 399


def test_who_somebody_is_and_how_they_work_are_two_matters() -> None:
    assert is_related(CandidateCategory.HABIT, "preference")
    assert is_related(CandidateCategory.CORRECTION, "background")
    assert not is_related(CandidateCategory.BACKGROUND, "preference")
    assert not is_related(CandidateCategory.PITFALL, "preference")


def test_a_text_says_the_same_in_traditional_characters() -> None:
    traditional = parse_statement("我喜歡簡短的回答。", simplify)

    assert compute_similarity(traditional, parse_statement("我喜欢简短的回答。")) == 1


def test_a_record_that_is_longer_than_what_is_read_is_never_cut() -> None:
    stored = "I prefer tabs. " * 400

    assert merge_content(stored, "I prefer tabs and pnpm.") == stored
