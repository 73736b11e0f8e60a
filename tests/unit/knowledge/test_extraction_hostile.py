"""Hostile texts: the rules neither raise nor take long on them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from knowhub.conversations.messages import Message
from knowhub.conversations.sentences import mask_quoted
from knowhub.knowledge.extract.existing_records import merge_content
from knowhub.knowledge.extract.reading import find_candidates

PIECES = [
    "我",
    "我们",
    "喜欢",
    "不要",
    "以后",
    "I prefer ",
    "always use ",
    "“",
    "”",
    '"',
    "```",
    "\n",
    "| ",
    "> ",
    "。",
    "?",
    "1. ",
    "📚",
    "x",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=40).map("".join)
ROLES = st.sampled_from(["user", "assistant", "tool", "system", ""])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(ROLES, TEXTS), max_size=6))
def test_every_candidate_names_its_messages_and_is_not_blank(said: list[tuple[str, str]]) -> None:
    messages = [Message(role, text) for role, text in said]

    for candidate in find_candidates(messages):
        assert candidate.content.strip()
        assert candidate.tags["category"] == candidate.category
        assert all(0 <= number < len(messages) for number in candidate.cited)
        assert not candidate.is_said_by_user or messages[candidate.cited[-1]].is_user


@given(TEXTS, TEXTS)
def test_any_texts_can_be_merged(text: str, other: str) -> None:
    assert merge_content(text, text) == text
    assert merge_content(text, other)[: len(text)] == text or merge_content(text, other) == other


@given(TEXTS)
def test_masking_keeps_the_length(text: str) -> None:
    assert len(mask_quoted(text)) == len(text)
