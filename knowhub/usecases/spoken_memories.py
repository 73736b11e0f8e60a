"""The rules by which knowledge understands people, handed to layered memories: neither domain knows the other."""

from collections.abc import Sequence
from typing import Final

from knowhub.context.extraction_model import Episode, SpokenStatement
from knowhub.conversations import patterns, sentences, statements
from knowhub.conversations.messages import Message
from knowhub.conversations.messages import Message as Said
from knowhub.conversations.sentences import Fold
from knowhub.knowledge.extract import episodes, rules

# A sentence with one of these states no fact.
_NOT_MEANT: Final = (
    patterns.QUESTION,
    patterns.HEDGE,
    patterns.NOT_SO,
    patterns.EXAMPLE,
    patterns.MADE_TO_ORDER,
    patterns.REPORTED,
    patterns.PRIVATE,
)
# Whoever names the speaker before the words wrote no log of somebody else's.
_LABEL_ENDS: Final = (": ", "：", ":")


class RuleBasedReader:
    """A `SpokenReader`; `fold` brings variants of characters to one, traditional to simplified."""

    def __init__(self, fold: Fold = str) -> None:
        self._fold = fold

    def statements(self, messages: Sequence[Message]) -> Sequence[SpokenStatement]:
        """Return what the users among these say, sentence by sentence."""
        return [
            _statement(number, sentence)
            for number, message in enumerate(messages)
            if message.is_user
            for sentence in sentences.split_sentences(_strip_label(message), self._fold)
        ]

    def episodes(self, messages: Sequence[Message]) -> Sequence[Episode]:
        """Return what failed and then worked, how tasks ended, and procedures, each once."""
        spoken = [
            Said(message.role, _strip_label(message), message.name if message.is_tool else "") for message in messages
        ]
        heard = sentences.parse_messages(spoken, self._fold)
        pitfalls = list(episodes.find_pitfalls(heard))
        texts = {pitfall.content for pitfall in pitfalls}
        outcomes = [outcome for outcome in episodes.find_outcomes(heard) if outcome.content not in texts]
        kinds = (
            ("pitfall", pitfalls),
            ("outcome", outcomes),
            ("plan", list(episodes.find_plans(spoken))),
        )
        return [
            Episode(kind, candidate.task, candidate.content, candidate.cited)
            for kind, found in kinds
            for candidate in found
        ]

    def sentences(self, text: str) -> Sequence[str]:
        """Return the sentences of a text, without code and data."""
        return [sentence.text for sentence in sentences.split_sentences(text, self._fold)]


def _statement(number: int, sentence: sentences.Sentence) -> SpokenStatement:
    category = rules.category_of(sentence)
    _, tags = rules.make_title(category, sentence.text) if category is not None else ("", {})
    return SpokenStatement(
        number,
        sentence.text,
        sentence.bare,
        category.value if category is not None else "",
        tags.get("domain", ""),
        statements.find_values(sentence.bare),
        is_meant=not _says_nothing(sentence.bare),
    )


def _says_nothing(bare: str) -> bool:
    if patterns.HYPOTHETICAL.search(bare):
        return True
    return any(form.search(bare) for form in _NOT_MEANT)


def _strip_label(message: Message) -> str:
    for end in _LABEL_ENDS:
        if message.name and message.content.startswith(message.name + end):
            return message.content[len(message.name + end) :].lstrip()
    return message.content
