"""Every pattern of the product takes linear time on any text."""

import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.product_patterns import find_calls, find_patterns
from tests.pump_strings import PUMPS, Pump, suggest_pumps

PATTERNS: Final = find_patterns()
# What is compiled from a caller's text: that text is escaped, and nothing around it is repeated.
MADE_FROM_TEXT: Final = {
    "knowhub/context/retrieval/seeds.py:_compile_name",
    "knowhub/providers/redaction.py:__init__",
}
# What compiles patterns for the values of a module, which are found there.
MADE_FOR_MODULES: Final = {
    "knowhub/conversations/secrets/patterns.py:_make_chosen",
    "knowhub/conversations/secrets/patterns.py:_make_exact",
    "knowhub/conversations/secrets/patterns.py:_make_token",
    "knowhub/conversations/language/dates.py:compile_form",
    "knowhub/conversations/statements/forms.py:compile_any",
}
RUN_WHERE_IT_STANDS: Final = {"knowhub/stores/files/erasing/line_eraser.py:_has_id"}

LIMIT_S: Final = 0.05
MUTATIONS: Final = 10_000
# Short ones first: a pattern that is exponential would never come back from a long one.
SHORT: Final = (20, 30, 60, 250, 1_000)
SHORT_LIMIT_S: Final = 0.02
MAX_GROWTH: Final = 3
# Below this a measurement says more about the machine than about a pattern.
NOISE_S: Final = 0.004

Run = Callable[[Any], object]


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_linear_time(name: str) -> None:
    _check_pattern(PATTERNS[name], 4_000)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_linear_time_for_longer_texts(name: str) -> None:
    _check_pattern(PATTERNS[name], 16_000)


def _check_pattern(pattern: re.Pattern[Any], longest: int) -> None:
    slow = [problem for pump in PUMPS if (problem := _find_problem(pattern, pump, longest))]
    # What the pattern itself suggests is tried at a shorter length: each pattern has dozens of these.
    slow += [problem for pump in suggest_pumps(pattern) if (problem := _find_problem(pattern, pump, 4_000))]

    assert not slow, f"{len(slow)} texts stall {pattern.pattern!r}: {slow[:5]}"


def test_there_are_enough_pump_strings_for_all_patterns() -> None:
    assert len(set(PUMPS)) >= 90
    assert len(PATTERNS) >= 240
    calls = find_calls()
    assert calls.pop("compile") == MADE_FROM_TEXT | MADE_FOR_MODULES
    del calls["escape"]
    # Any other call would use a pattern that this test does not find.
    assert calls == {"search": RUN_WHERE_IT_STANDS}


@pytest.mark.parametrize(
    "slow",
    [r"(?:a|aa)+$", r"a*b", r"[A-Z]+(?:[ .]?[A-Z]+){0,3};", r"\n\s*x", r"(?:刚刚?|了)*搬"],
    ids=["exponential", "quadratic", "names", "lines", "adverbs"],
)
def test_a_slow_pattern_is_found(slow: str) -> None:
    pattern = re.compile(slow)

    problems = (_find_problem(pattern, pump, 4_000) for pump in (*suggest_pumps(pattern), *PUMPS))

    assert any(problems)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PATTERNS)
def test_no_mutation_of_the_pump_strings_stalls(name: str) -> None:
    pattern = PATTERNS[name]
    chance = random.Random(name)
    corpus = (*suggest_pumps(pattern), *PUMPS)

    # A stall is less than the 100 ms that are promised: 50 ms, or a time that grows faster than the text.
    for _ in range(MUTATIONS // len(PATTERNS) + 1):
        assert not _find_problem(pattern, _mutate(chance, corpus), 16_000)


def _find_problem(pattern: re.Pattern[Any], pump: Pump, longest: int) -> str:
    """Return what is wrong with the time that a pattern takes for a text; empty where nothing is."""
    for run in _runs(pattern):
        for chars in SHORT:
            taken = _least_time(run, _text(pattern, pump, chars), SHORT_LIMIT_S)
            if taken > SHORT_LIMIT_S:
                return f"{pump} takes {taken * 1000:.1f} ms at {chars}"
        for chars in (4_000, 16_000):
            before, limit = taken, LIMIT_S * longest / 16_000 if chars < longest else LIMIT_S
            if chars > longest:
                break
            taken = _least_time(run, _text(pattern, pump, chars), limit)
            if taken > limit:
                return f"{pump} takes {taken * 1000:.1f} ms at {chars}"
            # Both lengths are four times the one before: two doublings.
            if taken > NOISE_S and taken > before * MAX_GROWTH**2 and _doubling(run, pattern, pump, chars) > MAX_GROWTH:
                return f"{pump} grows faster than its length at {chars}"
    return ""


def _doubling(run: Run, pattern: re.Pattern[Any], pump: Pump, chars: int) -> float:
    """Return how many times longer twice the text takes."""
    half, whole = (_least_time(run, _text(pattern, pump, length), 0) for length in (chars // 2, chars))
    return whole / half


def _least_time(run: Run, text: str | bytes, limit_s: float) -> float:
    """Return the CPU seconds of a run: the least of three, the first where that is within the limit already."""
    least = float("inf")
    for _ in range(3):
        begun = time.thread_time()
        run(text)
        least = min(least, time.thread_time() - begun)
        if least <= limit_s:
            break
    return least


def _runs(pattern: re.Pattern[Any]) -> Iterator[Run]:
    # A search is the first step of `finditer`, and a match is a search that ends at its first place.
    yield lambda text: sum(1 for _ in pattern.finditer(text))
    yield pattern.fullmatch


def _text(pattern: re.Pattern[Any], pump: Pump, chars: int) -> str | bytes:
    text = pump.make_text(chars)
    return text if isinstance(pattern.pattern, str) else text.encode()


def _mutate(chance: random.Random, corpus: tuple[Pump, ...]) -> Pump:
    """Return a pump whose unit is made of several, cut, doubled or interspersed."""
    head, tail = chance.choice(corpus), chance.choice(corpus)
    unit = "".join(chance.choice(corpus).unit * chance.randint(1, 3) for _ in range(chance.randint(1, 3)))
    at = chance.randrange(len(unit))
    match chance.randrange(4):
        case 0:
            unit = unit[:at] + unit[at + 1 :] or unit
        case 1:
            unit = unit[:at] + chance.choice("aA1 \n-.,:'\"(中，") + unit[at:]
        case 2:
            unit = unit[:at] + unit[at] * chance.randint(2, 40) + unit[at:]
    return Pump(chance.choice(("", head.head, head.unit)), unit, chance.choice(("", tail.tail, tail.unit, "\x00")))
