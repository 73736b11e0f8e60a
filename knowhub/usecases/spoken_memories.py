"""The rules by which knowledge understands people, handed to layered memories: neither domain knows the other."""

from collections.abc import Sequence
from typing import Final

from knowhub.context.heard import Episode, Statement
from knowhub.core.messages import Message
from knowhub.core.messages import Message as Said
from knowhub.knowledge import episodes, extraction_rules, profile_turns, recalled, spoken, spoken_patterns
from knowhub.knowledge.extraction_model import Fold

# Whatever of these stands in a sentence, it says nothing of how things are.
_NOT_MEANT: Final = (
    spoken_patterns.QUESTION,
    spoken_patterns.HEDGE,
    spoken_patterns.NOT_SO,
    spoken_patterns.EXAMPLE,
    spoken_patterns.MADE_TO_ORDER,
    spoken_patterns.REPORTED,
    spoken_patterns.PRIVATE,
)
# Whoever names the speaker before the words wrote no log of somebody else's.
_LABEL_ENDS: Final = (": ", "：", ":")


class KnowledgeSpeech:
    """A `SpokenReader`; `fold` brings variants of characters to one, traditional to simplified."""

    def __init__(self, fold: Fold = str) -> None:
        self._fold = fold

    def statements(self, messages: Sequence[Message]) -> Sequence[Statement]:
        """Return what the users among these say, sentence by sentence."""
        return [
            _statement(number, sentence)
            for number, message in enumerate(messages)
            if message.is_user
            for sentence in spoken.sentences(_unlabelled(message), self._fold)
        ]

    def episodes(self, messages: Sequence[Message]) -> Sequence[Episode]:
        """Return what failed and then worked, how tasks ended, and procedures, each once."""
        said = [Said(one.role, _unlabelled(one), one.name if one.is_tool else "") for one in messages]
        heard = spoken.heard(said, self._fold)
        pitfalls = list(episodes.pitfalls(heard))
        texts = {one.content for one in pitfalls}
        outcomes = [one for one in episodes.outcomes(heard) if one.content not in texts]
        kinds = (
            ("pitfall", pitfalls),
            ("outcome", outcomes),
            ("plan", list(episodes.plans(said))),
        )
        return [Episode(kind, one.task, one.content, one.cited) for kind, found in kinds for one in found]

    def sentences(self, text: str) -> Sequence[str]:
        """Return the sentences of a text, without code and data."""
        return [one.text for one in spoken.sentences(text, self._fold)]

    def is_own_answer(self, message: Message) -> bool:
        """Tell whether a message is an answer of KnowHub to a tool's call."""
        return recalled.is_own_answer(Said(message.role, message.content, message.name))

    def without_recalled(self, text: str) -> str:
        """Return a text without the lines that KnowHub wrote into it."""
        return recalled.without_recalled(text)


def _statement(number: int, sentence: spoken.Sentence) -> Statement:
    category = extraction_rules.category_of(sentence)
    _, tags = extraction_rules.titled(category, sentence.text) if category is not None else ("", {})
    return Statement(
        number,
        sentence.text,
        sentence.bare,
        category.value if category is not None else "",
        tags.get("domain", ""),
        profile_turns.values(sentence.bare),
        is_meant=not _says_nothing(sentence.bare),
    )


def _says_nothing(bare: str) -> bool:
    if spoken_patterns.HYPOTHETICAL.search(bare):
        return True
    return any(form.search(bare) for form in _NOT_MEANT)


def _unlabelled(message: Message) -> str:
    for end in _LABEL_ENDS:
        if message.name and message.content.startswith(message.name + end):
            return message.content[len(message.name + end) :].lstrip()
    return message.content
