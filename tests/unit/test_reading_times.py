"""All readers of a caller's text take linear time."""

import gc
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final

import pytest

from agent_tools import risk
from knowhub.audit import quotes
from knowhub.context import texts, times
from knowhub.context.commit import memory_page, session_summary
from knowhub.context.commit.rule_extraction import extract_by_rules
from knowhub.conversations import messages, recalled
from knowhub.conversations.changes.checks import check_changes
from knowhub.conversations.changes.prompt import ChangePrompt, KnownMemory
from knowhub.conversations.language import dates
from knowhub.conversations.messages import Message
from knowhub.conversations.secrets import detection
from knowhub.conversations.statements.reader import read_values
from knowhub.core import near_duplicates
from knowhub.keywords import mentions
from knowhub.knowledge import facts
from knowhub.knowledge.evolve import merging
from knowhub.knowledge.extract import suggestions
from knowhub.knowledge.extract.reading import find_candidates
from knowhub.search.analysis import index_terms, weight_terms
from knowhub.search.keyword_text import KeywordTextRules
from tests.context_commits import SESSION
from tests.hostile_texts import HOSTILE_TEXTS

WORDS: Final = KeywordTextRules()

LENGTHS: Final = (4_000, 8_000, 16_000)
# Twice for each doubling, and some for the machine.
MAX_GROWTH: Final = 9
NOISE_S: Final = 0.03
# Times the CPU time of `count_words`, which the same machine takes for the same text.
MAX_COUNTS: Final = 300


def split_messages(text: str) -> list[Message]:
    """Say a text in messages that are short enough to be read to their end."""
    roles = ("user", "user", "assistant", "tool")
    parts = [text[at : at + 2_000] for at in range(0, len(text), 2_000)]
    return [Message(roles[at % 4], part, "", f"m{at}") for at, part in enumerate(parts)]


def extract_memories(text: str) -> None:
    extract_by_rules(SESSION, split_messages(text), [], [])


def check_model_changes(text: str, action: str = "add", memory: str | None = None) -> None:
    prompt = ChangePrompt(
        [Message("user", text, "", "m1", "2026-05-11T10:00:00Z")], [KnownMemory("profile", text[:400])]
    )
    said = {
        "category": "profile",
        "statement": text[:900] or "a",
        "evidence": ["m1"],
        "action": action,
        "memory": memory,
    }
    check_changes(prompt, prompt.read_answer({"changes": [said]}) or [])
    prompt.make_request()


def summarize_session(text: str) -> None:
    # Messages without a statement have no summary.
    messages = [message for message in split_messages(text) if message.content.strip()]
    session_summary.summarize_session(messages or [Message("user", "a")])


def correct_memory(text: str) -> None:
    before, after = ({"content": content, "metadata": {}} for content in (text, text.replace("\n", "\n- ") + "\n- b"))
    memory_page.edit_page(before, after, 1.7e9)


def merge_records(text: str) -> None:
    merging.join_contents({"task": "a", "content": text}, [{"task": "b", "content": text[1:]}])


def find_quotes(text: str) -> None:
    index = quotes.QuoteIndex()
    quoted = quotes.normalize_quote(text)
    index.put(1, quoted)
    index.find_candidates(quoted)


def find_all_secrets(text: str) -> None:
    for piece, offset in detection.cut_pieces(text):
        detection.find_secrets(piece, offset)


READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "memories of a commit": extract_memories,
    "summary of a session": summarize_session,
    "a tool's answer": lambda text: recalled.keep_own_words(Message("tool", text)),
    "recalled text": lambda text: recalled.remove_recalled(split_messages(text), recalled.index_recalled([text[:500]])),
    "transcript": lambda text: texts.format_transcript(
        [{"name": "", "role": "user", "timestamp": "", "message_id": "m1", "content": text}]
    ),
    "correction of a memory": correct_memory,
    "changes of a model": check_model_changes,
    "memories that a model forgets": lambda text: check_model_changes(text, "forget", "k1"),
    "values of a person": read_values,
    "named times": lambda text: times.list_named_times(text, 1.7e9),
    "time after an event": times.parse_time_after,
    "knowledge of a conversation": lambda text: find_candidates(split_messages(text)),
    "coming days": lambda text: dates.find_coming_day(text, date(2026, 5, 11)),
    "losses of a merge": lambda text: facts.find_missing_facts([text], text[1:]),
    "merge of records": merge_records,
    "offers of resources": lambda text: list(suggestions.suggest_resources(0, Message("user", text))),
    "sealed bodies": lambda text: messages.withhold_sealed_bodies(
        [Message("tool", text), Message("tool", f'"secure_body": "{text}'), Message("tool", f"| secure_body: {text}")]
    ),
    "secrets of an audit": find_all_secrets,
    "secrets to withhold": detection.find_possible_secrets,
    "secrets to redact": detection.mask_secrets,
    "secrets to cover": detection.cover_secrets,
    "quotes": find_quotes,
    "renderings": quotes.find_rendering,
    "copies": lambda text: (
        near_duplicates.digest(text),
        near_duplicates.shingles(text),
        near_duplicates.make_similarity_query(text),
    ),
    "terms of the index": index_terms,
    # The function itself: what it found is kept for a while.
    "terms of a question": weight_terms.__wrapped__,
    "normal form of a name": WORDS.name_keys,
    "mentions of keywords": lambda text: mentions.find_names(text, WORDS.name_keys, lambda key: len(key) % 3 == 0),
    "name of a tool": risk.is_write_like,
}


@pytest.mark.parametrize("reader", READERS)
def test_reading_takes_linear_time(reader: str) -> None:
    read = READERS[reader]
    read("Warm up: 我 1.")
    longest = MAX_COUNTS * measure_machine()
    slow: list[str] = []

    for name, make_text in HOSTILE_TEXTS.items():
        texts = [make_text(length) for length in LENGTHS]
        taken = [cpu_time(read, text) for text in texts]
        if is_slow(taken, longest):
            taken = [min(cpu_time(read, text) for _ in range(3)) for text in texts]
            longest = max(longest, MAX_COUNTS * measure_machine())
        if is_slow(taken, longest):
            slow.append(f"{name}: {[round(seconds * 1000, 1) for seconds in taken]} ms of {longest * 1000:.0f}")

    assert not slow


def test_a_text_full_of_the_word_password_is_covered_in_the_time_of_15_counts() -> None:
    text = ("password " * LENGTHS[-1])[: LENGTHS[-1]]

    assert min(cpu_time(detection.cover_secrets, text) for _ in range(3)) < 15 * measure_machine()


def is_slow(taken: list[float], longest: float) -> bool:
    return taken[-1] > longest or (taken[-1] > NOISE_S and taken[-1] > MAX_GROWTH * taken[0])


def measure_machine() -> float:
    """Return the CPU seconds in which this machine counts the words of a text of the longest length."""
    text = ("Yesterday I moved to Paris. " * LENGTHS[-1])[: LENGTHS[-1]]
    return min(cpu_time(count_words, text) for _ in range(3))


def count_words(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word in re.finditer(r"\w+", text):
        counts[word.group().casefold()] += 1
    return counts


def cpu_time(read: Callable[[str], object], text: str) -> float:
    """Return the CPU seconds that it takes, those of threads among them."""
    # As timeit does: a collection takes the longer, the more tests ran before.
    gc.disable()
    try:
        begun = time.process_time()
        read(text)
        return time.process_time() - begun
    finally:
        gc.enable()
