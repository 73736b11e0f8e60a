"""Complete a statement that says nothing alone with the sentences beside it."""

from collections.abc import Sequence
from typing import Final

from knowhub.conversations.sentences import MAX_SENTENCE_CHARS
from knowhub.conversations.statements.forms import compile_any

MAX_BEFORE: Final = 8
_SHORT_CHARS: Final = {True: 34, False: 8}
# «Precisely.» and 好的 explain nothing.
_NEIGHBOUR_CHARS: Final = {True: 14, False: 5}
# What is meant is only pointed at: «write this down», 记一下.
_POINTING: Final = compile_any(
    r"^(?!yes|no)[^,]*\b(?:this|that|it)(?: down\b(?: \w+)?)?(?:,? please)?[.!:]*$",
    r"^(?:[^，,]{0,6}[，,])?[^，,]*(?:记住|记一下|记下来?)(?:[这那][个点些])?了?[。.!！：:]*$",
)
# A pronoun is the subject, and no further clause explains it: «It is due on 3 June.».
_PRONOUN: Final = compile_any(
    r"^(?:and |but |so |also |ok(?:ay)?,? ){0,2}(?:it|this|that|they|these|those)(?:'(?:s|ll|re)"
    r"| (?:is|are|was|were|will|has|have|had|must|should|can|may|needs?|goes|gets|starts|ends))\b"
    r"(?! (?:an?|the|my|our) [a-z])[^,;:–—]*$",
    r"^(?:而且|但是?|所以|然后)?(?:它们?|[这那](?:个|些|件?事))[是要会得已也就都定改在到][^，；：]*$",
)
_REPLY: Final = compile_any(r"^(?:yes|no|yeah|nope)\b,? ", r"^(?:不|是的?|对|好)[，,]")


def complete(text: str, folded: str, before: Sequence[str], following: str, *, may_be_short: bool) -> str:
    """Return a statement with its neighbours where it says nothing alone; empty if they explain no pronoun.

    That is one whose subject or object is a pronoun only, and unless it `may_be_short` also «Always like that.». What
    follows is read only if nothing is before.
    """
    is_vague = _POINTING.search(folded) is not None or _PRONOUN.search(folded) is not None
    is_short = not may_be_short and len(text) <= _SHORT_CHARS[text.isascii()]
    if not (is_vague or is_short):
        return text
    before = before if is_short else before[-1:]
    after = [following] if following and not before and (is_vague or _REPLY.search(folded)) else []
    is_explained = any(len(said) > _NEIGHBOUR_CHARS[said.isascii()] for said in (*before, *after))
    return " ".join((*before, text, *after))[-MAX_SENTENCE_CHARS:] if is_explained or not is_vague else ""
