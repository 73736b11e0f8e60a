"""Texts are read once and compared with those only that share a word, however many there are."""

import random
import time

from knowhub.conversations.comparison import PairwiseComparison
from knowhub.conversations.messages import Message
from knowhub.knowledge.extract.suggestions import suggest_resources

RNG = random.Random(2)
WORDS = ["".join(RNG.choice("bdfgklmnprstvz") + RNG.choice("aeiou") for _ in range(4)) for _ in range(6_000)]


class CountingFold:
    """Counts the lines that it is given."""

    def __init__(self) -> None:
        self.lines = 0

    def __call__(self, text: str) -> str:
        self.lines += 1
        return text


def wishes(count: int, words: int = 12) -> list[str]:
    return [f"The user said: I prefer {' '.join(RNG.sample(WORDS, words))}." for _ in range(count)]


def test_each_text_is_read_once_and_none_while_the_decision_is_made() -> None:
    fold = CountingFold()
    comparison = PairwiseComparison(fold)
    said, stored = wishes(20), wishes(300)

    comparison.prepare(said, stored)
    prepared = fold.lines
    met = [comparison.compare(one, other) for one in said for other in stored]

    assert prepared == 320
    assert fold.lines == prepared
    assert len(met) == 6_000


def test_what_is_prepared_is_what_is_met_without_it() -> None:
    said = ["I prefer tabs.", "I prefer light mode.", "My name is Eva.", "我住在北京。", "Never use vim."]
    stored = ["I prefer spaces.", "I prefer dark mode.", "My name is Ana.", "我住在上海。", "I use vim.", "I like tea."]
    prepared, fresh = PairwiseComparison(), PairwiseComparison()

    prepared.prepare(said, stored)

    pairs = [(one, other) for one in said for other in stored]
    assert [prepared.compare(*pair) for pair in pairs] == [fresh.compare(*pair) for pair in pairs]
    assert [prepared.compare(one, other).is_rival for one, other in zip(said, stored, strict=False)] == [True] * 5


def test_words_that_are_prepared_are_as_alike_as_without_it() -> None:
    said, stored = wishes(10), wishes(10)
    stored += [f"{one} Really." for one in said]
    prepared, fresh = PairwiseComparison(), PairwiseComparison()

    prepared.prepare_words(said, stored)

    pairs = [(one, other) for one in said for other in stored]
    assert [prepared.word_overlap(*pair) for pair in pairs] == [fresh.word_overlap(*pair) for pair in pairs]


def seconds_of_offering(lines: int) -> float:
    message = Message("user", "```" + "a" * lines + "\n" + "x\n" * lines)

    def once() -> float:
        started = time.process_time()
        for _ in range(5):
            assert list(suggest_resources(0, message, [])) == []
        return time.process_time() - started

    return min(once() for _ in range(3))


def test_a_fence_that_is_never_closed_is_read_in_linear_time() -> None:
    assert seconds_of_offering(8_000) < 3 * max(seconds_of_offering(4_000), 0.001)


def test_code_between_two_fences_is_offered_with_its_language_and_length() -> None:
    text = "```python\n" + "x = 1\n" * 12 + "```\nand\n~~~\n" + "y\n" * 9 + "~~~\n```\n" + "z\n" * 10 + "```"

    found = [one.shown for one in suggest_resources(0, Message("user", text), [])]

    assert found == ["12 lines of python", "10 lines of text"]
