"""Automatic links of an info: the keywords that its text names, and the choice of a model among them."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from knowhub.core.errors import InvalidInput
from knowhub.core.ids import Ids, uuid4_id
from knowhub.core.operation import Row, View, Write
from knowhub.core.request_context import RequestContext
from knowhub.core.unicode_forms import normalize
from knowhub.keywords import info_rules, keyword_rules, rendering
from knowhub.keywords.model import ROOT_ID, NewKeyword, Node, RelationType, TreeOptions
from knowhub.keywords.ports import KeywordStore, KeywordText
from knowhub.keywords.search.agent import KeywordAgent
from knowhub.keywords.tree import find_by_token

BY_AGENT = "agent"
BY_RULE = "auto_link"
MAX_MENTIONED = 1_000


@dataclass(frozen=True, slots=True)
class AutoLinks:
    """The links of an info, chosen before the decision that writes it; deleted keywords are then left out.

    `names` are keywords to create, `calls` the calls of the model.
    """

    links: Sequence[tuple[str, RelationType]] = ()
    created_by: str = BY_RULE
    names: Sequence[str] = ()
    calls: Sequence[Row] = ()
    degraded: Sequence[str] = ()


class KeywordMatcher:
    """Chooses the keywords of an info, and makes the writes of their links."""

    def __init__(
        self, store: KeywordStore, text: KeywordText, ids: Ids, agent: KeywordAgent, options: TreeOptions
    ) -> None:
        self._store = store
        self._text = text
        self._ids = ids
        self._agent = agent
        self._options = options

    async def select_keywords(self, ctx: RequestContext, content: str) -> AutoLinks:
        """Let the model choose among the keywords that a text names; without a model, or if it fails, take all.

        If it chooses none and `auto_link_creates` is on, the keywords that it suggests are created.
        """
        view = self._store.view(ctx.account)
        nodes = self._find_named_keywords(view, ctx, content)
        can_create = self._options.auto_link_creates
        if not self._agent.available or not (nodes or can_create):
            return _relate_all(nodes)
        chosen = await self._agent.link_info(ctx, view, content, nodes, self._options.write_budget_s)
        if chosen.failure is not None:
            fallback = _relate_all(nodes)
            return AutoLinks(fallback.links, fallback.created_by, (), chosen.calls, ("llm",))
        names = chosen.suggested_names if can_create and not chosen.links else ()
        return AutoLinks(chosen.links, BY_AGENT, names, chosen.calls)

    def match_text(self, ctx: RequestContext, content: str) -> AutoLinks:
        """Link every keyword that a text names, as RELATED, without a model."""
        return _relate_all(self._find_named_keywords(self._store.view(ctx.account), ctx, content))

    def make_writes(
        self, view: View, ctx: RequestContext, info_id: str, auto: AutoLinks, *, explicit: frozenset[str]
    ) -> list[Write]:
        """Return the writes of new keywords and links; `explicit` keywords are linked already."""
        created: dict[str, Row] = {}
        links = {
            keyword_id: relation
            for keyword_id, relation in auto.links
            if keyword_id not in explicit and rendering.get_visible_node(view, ctx, keyword_id) is not None
        }
        for name in auto.names:
            keyword_id = self._find_existing(view, ctx, name, created) or self._create(view, ctx, name, created)
            if keyword_id is not None and keyword_id not in explicit:
                links.setdefault(keyword_id, RelationType.PRIMARY)
        rows = [
            info_rules.new_link_row(info_id, keyword_id, relation, auto.created_by, None, view.now)
            for keyword_id, relation in links.items()
        ]
        return [*map(keyword_rules.write_keyword, created.values()), *map(info_rules.write_link, rows)]

    def _find_named_keywords(self, view: View, ctx: RequestContext, content: str) -> list[Node]:
        def find_visible(token: str) -> list[Node]:
            return [node for node in find_by_token(view, token) if ctx.sees(node.audience)]

        tokens = find_names(content, self._text.tokens, lambda token: bool(find_visible(token)))
        nodes = {node.id: node for token in tokens for node in find_visible(token)}
        return list(nodes.values())[:MAX_MENTIONED]

    def _find_existing(self, view: View, ctx: RequestContext, name: str, created: dict[str, Row]) -> str | None:
        """Return the id of the keyword with a suggested name, stored or just created."""
        tokens = self._text.tokens(name)
        for row_id, row in created.items():
            if not set(tokens).isdisjoint(row["normalized"]):
                return row_id
        nodes = (node for token in tokens for node in find_by_token(view, token) if ctx.sees(node.audience))
        return next((node.id for node in nodes), None)

    def _create(self, view: View, ctx: RequestContext, name: str, created: dict[str, Row]) -> str | None:
        try:
            row = keyword_rules.new_keyword_row(
                NewKeyword(name), (uuid4_id(self._ids), ROOT_ID), ctx, self._text, view.now
            )
        except InvalidInput:
            # The model suggested an invalid name: the info is saved without it.
            return None
        created[row["id"]] = row
        return str(row["id"])


def _relate_all(nodes: Sequence[Node]) -> AutoLinks:
    return AutoLinks([(node.id, RelationType.RELATED) for node in nodes])


TokensOf: TypeAlias = Callable[[str], list[str]]
Known: TypeAlias = Callable[[str], bool]

LIMIT: Final = 50

_READ_CHARS: Final = 8_192
_MAX_WORDS: Final = 5
_MAX_UNSPACED: Final = 12
# No name is longer; a longer word is data.
_WORD_CHARS: Final = 200
_UNSPACED: Final = (
    "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u312f\uac00-\ud7af"  # kana, hangul
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17dd"  # Thai, Lao, Burmese, Khmer
)
_LETTER: Final = rf"[^\W_{_UNSPACED}]"
# Vowel signs and accents occur inside words, and `re` does not count them as letters.
_WORD: Final = rf"{_LETTER}(?:{_LETTER}|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0dff])*"
_PIECES: Final = re.compile(
    rf"""
    (?P<unspaced>[{_UNSPACED}]+)
    | (?P<word>
        \d+(?:\.\d+)+                              # 3.11
      | (?<![\w.])\.(?=[a-z]){_WORD}               # .NET
      | {_WORD}(?:
          \+\++ | \+(?![^\W_])                     # C++, A+, and not a+b
        | (?<=[a-z])(?<![^\W{_UNSPACED}].)\#       # C#, and not issue#12
        | (?<=[a-z])(?<![^\W{_UNSPACED}].)\*(?!\*) # A*, and not **bold**
        )?
      )
    | (?P<other>(?!(?<=[^\W_])\+(?=[^\W_]))[^\w\s]) # a symbol, but no plus between two words
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Characters allowed between the words of one name; anything else ends the name.
_JOINT: Final = re.compile(r"[ \t]?(?:[-‐‑_/.&'’·・\n]|[\u200d\ufe0f]{1,2})?[ \t]?")
_SENTENCE_END: Final = re.compile(r"\.\s")


class _Segment(NamedTuple):
    """A word, a symbol, or a character of a script without spaces.

    `opening` is its normal form at the beginning of a name, `inner` within a name: `.net` and `net`.
    """

    opening: str
    inner: str
    is_unspaced: bool
    is_alone: bool


def find_names(content: str, tokens_of: TokensOf, known: Known, limit: int = LIMIT) -> list[str]:
    """List the known names in the first 8,192 characters as normal forms, each once, in text order.

    A name has up to five words, or up to twelve characters of a script without spaces, or both (`Python装饰器`). Words
    match as a whole: `java` is not in `javascript`. A name inside a longer known name does not count, nor does a
    single Chinese character inside a run: 水 is not in 水平.
    """
    text = normalize("NFKC", content[:_READ_CHARS])[:_READ_CHARS]
    found: dict[str, None] = {}
    for phrase in _split_into_phrases(text, tokens_of):
        for token in _match_phrase(phrase, known):
            found[token] = None
            if len(found) >= limit:
                return list(found)
    return list(found)


def _split_into_phrases(text: str, tokens_of: TokensOf) -> Iterator[list[_Segment]]:
    """Yield the phrases that may contain a name; punctuation separates them."""
    forms: dict[str, str] = {}

    def form(piece: str) -> str:
        if piece not in forms:
            forms[piece] = "".join(tokens_of(piece)[:1])
        return forms[piece]

    phrase: list[_Segment] = []
    end = 0
    for match in _PIECES.finditer(text):
        pieces = _make_segments(match, form)
        if not pieces:
            continue
        if phrase and not _can_join(text[end : match.start()]):
            yield phrase
            phrase = []
        phrase += pieces
        end = match.end()
    if phrase:
        yield phrase


def _can_join(gap: str) -> bool:
    return not gap or (_JOINT.fullmatch(gap) is not None and not _SENTENCE_END.match(gap))


def _make_segments(match: re.Match[str], form: Callable[[str], str]) -> list[_Segment]:
    if run := match["unspaced"]:
        whole = form(run)
        # A few compatibility characters change the length of a run.
        chars = list(whole) if len(whole) == len(run) else [form(char) for char in run]
        return [_Segment(char, char, is_unspaced=True, is_alone=len(run) == 1) for char in chars]
    text = match[0]
    opening = form(text) if len(text) <= _WORD_CHARS else ""
    if not opening:
        return []
    inner = opening.strip(".*") if text[0] == "." or text[-1] == "*" else opening
    return [_Segment(opening, inner, is_unspaced=False, is_alone=True)]


def _match_phrase(phrase: list[_Segment], known: Known) -> Iterator[str]:
    """Yield the longest known name at each segment, unless it ends inside an earlier match."""
    joined = "".join(piece.inner for piece in phrase)
    offsets = list(accumulate((len(piece.inner) for piece in phrase), initial=0))
    covered = 0
    for start, (piece, reach) in enumerate(zip(phrase, _list_limits(phrase), strict=True)):
        opening = "" if piece.opening == piece.inner else piece.opening
        begin = offsets[start + 1] if opening else offsets[start]
        shortest = start if piece.is_alone else start + 1
        for end in range(reach, max(covered, shortest), -1):
            token = opening + joined[begin : offsets[end]]
            if known(token):
                covered = end
                yield token
                break


def _list_limits(phrase: list[_Segment]) -> Iterator[int]:
    """Yield, for each segment, where the longest possible name would end."""
    end = words = unspaced = 0
    for piece in phrase:
        while end < len(phrase):
            is_unspaced = phrase[end].is_unspaced
            if (unspaced == _MAX_UNSPACED) if is_unspaced else (words == _MAX_WORDS):
                break
            unspaced += is_unspaced
            words += not is_unspaced
            end += 1
        yield end
        unspaced -= piece.is_unspaced
        words -= not piece.is_unspaced
