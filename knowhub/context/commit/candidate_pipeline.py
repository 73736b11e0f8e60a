"""From messages to checked candidates: extraction, what was recalled, and the checks of each candidate."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from knowhub.context import uri
from knowhub.context.commit_model import CandidateMemory, SessionArchive, SessionCommit, UsedTool
from knowhub.context.extraction.extractors import make_extractors
from knowhub.context.extraction.wording import one_line, shorten
from knowhub.context.model import NODES, PARTS, MemoryCategory, MemoryContext
from knowhub.context.ports import CandidateExtractor
from knowhub.conversations.messages import Message, count_unread, list_readable
from knowhub.conversations.recalled import RecalledTexts, index_recalled, normalize_words, remove_recalled
from knowhub.conversations.secrets import COVER, contains_secret, cover_secrets
from knowhub.conversations.sentences import Fold
from knowhub.core import scopes
from knowhub.core.errors import FieldError, InvalidInput
from knowhub.core.language_models import ChatModel
from knowhub.core.model_calls import ModelConversation
from knowhub.core.operation import Row, View, is_live
from knowhub.core.request_context import RequestContext

MAX_MESSAGES: Final = 2_000
TOO_MANY: Final = f"must be at most {MAX_MESSAGES:,}; commit a longer session in several turns, under one session_id"
MAX_USED: Final = 2_000
MAX_SESSION_CHARS: Final = 200
MAX_ROLE_CHARS: Final = 40
MAX_NAME_CHARS: Final = 200
MAX_MESSAGE_ID_CHARS: Final = 200
MAX_TIMESTAMP_CHARS: Final = 64
MAX_NOTE_CHARS: Final = 1_000
_MAX_ERRORS: Final = 20
# `m-`, a hash, and a number: how a message is called that has no id.
_OWN_NAME: Final = 40


def check_commit(commit: SessionCommit) -> None:
    """Raise InvalidInput naming every field that is wrong, the first twenty of them."""
    errors = [error for error in _errors(commit) if error is not None][:_MAX_ERRORS]
    if errors:
        detail = "; ".join(f"{field_error.field}: {field_error.message}" for field_error in errors)
        raise InvalidInput(detail, errors)


def check_uris(session_uri: str, messages: Sequence[Message]) -> None:
    """Raise InvalidInput where the id of a message makes too long a URI. That of one without is short."""
    for message in messages:
        name = message.message_id or ""
        if len(session_uri) + 1 + max(len(uri.segment(name)) if name else 0, _OWN_NAME) > uri.MAX_URI_CHARS:
            raise InvalidInput.of("messages", f"the id {name!r} makes too long a URI")


def _errors(commit: SessionCommit) -> Iterable[FieldError | None]:
    yield _segment("session_id", commit.session_id, MAX_SESSION_CHARS)
    if not commit.messages:
        yield FieldError("messages", "must name at least one message")
    if len(commit.messages) > MAX_MESSAGES:
        yield FieldError("messages", TOO_MANY)
        return
    for number, message in enumerate(commit.messages):
        yield from _message_errors(f"messages.{number}", message)
    named = [item.message_id for item in commit.messages if item.message_id]
    if len(named) != len(set(named)):
        twice = next(item for number, item in enumerate(named) if item in named[:number])
        yield FieldError("messages", f"the message_id {twice!r} stands twice; each must be one message's")
    for name, many in (("used_contexts", commit.used_contexts), ("used_tools", commit.used_tools)):
        if len(many) > MAX_USED:
            yield FieldError(name, f"must be at most {MAX_USED:,}")
    for number, used in enumerate(commit.used_tools[:MAX_USED]):
        yield from _tool_errors(f"used_tools.{number}", used)


def _message_errors(field: str, message: Message) -> Iterable[FieldError | None]:
    if not message.role.strip():
        yield FieldError(f"{field}.role", "must say who speaks, such as user, assistant or tool")
    yield _text(f"{field}.role", message.role, MAX_ROLE_CHARS)
    yield _text(f"{field}.name", message.name, MAX_NAME_CHARS)
    yield _text(f"{field}.timestamp", message.timestamp or "", MAX_TIMESTAMP_CHARS)
    yield _text(f"{field}.content", message.content, None)
    if message.message_id is not None:
        yield _segment(f"{field}.message_id", message.message_id, MAX_MESSAGE_ID_CHARS)


def _tool_errors(field: str, used: UsedTool) -> Iterable[FieldError | None]:
    yield _segment(f"{field}.name", used.name, MAX_NAME_CHARS)
    yield _text(f"{field}.note", used.note, MAX_NOTE_CHARS)
    if used.call_id is not None:
        yield _segment(f"{field}.call_id", used.call_id, MAX_MESSAGE_ID_CHARS)
    if used.kind not in {"tool", "skill"}:
        yield FieldError(f"{field}.kind", "must be tool or skill")
    if used.seconds is not None and not 0 <= used.seconds < float("inf"):
        yield FieldError(f"{field}.seconds", "must be a number of seconds, from 0")


def _segment(field: str, text: str, longest: int) -> FieldError | None:
    """Return what keeps a text from naming something in a URI."""
    if not text.strip():
        return FieldError(field, "must not be empty")
    problem = _text(field, text, longest)
    if problem is not None:
        return problem
    try:
        uri.segment(text)
    except ValueError as wrong:
        return FieldError(field, str(wrong))
    return None


def _text(field: str, text: str, longest: int | None) -> FieldError | None:
    if longest is not None and len(text) > longest:
        return FieldError(field, f"must have at most {longest} characters")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return FieldError(field, "holds half of a character: it is no text that can be stored")
    return None


_MAX_NAMED: Final = 400


def collect_recalled(view: View, ctx: RequestContext, used_contexts: Sequence[str]) -> RecalledTexts:
    """Return the recalled texts: plain texts as they are, and for each URI the texts that the caller sees."""
    return index_recalled(text for named in used_contexts[:_MAX_NAMED] for text in _texts(view, ctx, named))


def _texts(view: View, ctx: RequestContext, named: str) -> Iterable[str]:
    if not named.startswith(uri.SCHEME):
        return [named]
    try:
        parsed = uri.parse(named.strip())
    except InvalidInput:
        return [named]
    if parsed.account != ctx.account:
        return []
    row = view.get(PARTS if parsed.is_part else NODES, parsed.text)
    if row is None or not _is_seen(ctx, row):
        return []
    return [str(row[layer]) for layer in ("abstract", "overview", "content") if row.get(layer)]


def _is_seen(ctx: RequestContext, row: Row) -> bool:
    return is_live(row) and ctx.sees(scopes.audience(row["scopes"], row["owner"]))


MAX_CANDIDATES: Final = 1_000
UNREAD: Final = "messages_not_read"
"""The key of what is dropped that counts messages; the others count candidates."""
_MAX_ABSTRACT: Final = 300
_MAX_OVERVIEW: Final = 2_000
_MAX_CONTENT: Final = 8_000
_MAX_KEY: Final = 200
_MAX_SOURCES: Final = 50
_COUNTED: Final = (MemoryCategory.SKILLS, MemoryCategory.TOOLS)

MakeExtractors: TypeAlias = Callable[[Fold, ModelConversation | None], Sequence[CandidateExtractor]]


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """`budget_s` is what a model has for all that it is asked of a session, `extractor_s` what each extractor has.

    `fold` maps variants of a character to one, such as traditional to simplified Chinese.
    """

    budget_s: float = 30.0
    extractor_s: float = 60.0
    fold: Fold = str


@dataclass(frozen=True, slots=True)
class ExtractedMemories:
    """The candidates, what each extractor did, and how many candidates were dropped, by why."""

    candidates: Sequence[CandidateMemory] = ()
    extractors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)


class CandidatePipeline:
    """Runs the extractors."""

    def __init__(
        self,
        chat: ChatModel | None = None,
        options: PipelineOptions | None = None,
        make_extractors: MakeExtractors = make_extractors,
    ) -> None:
        self._chat = chat
        self._options = options or PipelineOptions()
        self._make_extractors = make_extractors

    @property
    def fold(self) -> Fold:
        """What maps variants of a character to one."""
        return self._options.fold

    def start_conversation(self) -> ModelConversation | None:
        """Return the talk with the model for one session; None where there is no model."""
        return None if self._chat is None else ModelConversation(self._chat, self._options.budget_s)

    async def extract_candidates(
        self,
        ctx: MemoryContext,
        archive: SessionArchive,
        messages: Sequence[Message],
        known: RecalledTexts,
        conversation: ModelConversation | None = None,
    ) -> ExtractedMemories:
        """Return what these messages, each named by its `message_id`, say that is worth remembering.

        They are read as far as `list_readable` says. What KnowHub said, and what is in `known`, is not remembered
        again. An extractor that fails, or is late, costs
        its own candidates alone.
        """
        readable = list_readable(messages)
        own = await asyncio.to_thread(self._clean_messages, readable, known)
        extractors = self._make_extractors(self._options.fold, conversation)
        done = await asyncio.gather(*(self._run(extractor, own, archive, ctx) for extractor in extractors))
        found = [candidate for candidates, _ in done for candidate in candidates]
        reports = {extractor.name: report for extractor, (_, report) in zip(extractors, done, strict=True)}
        kept, dropped = await asyncio.to_thread(self._normalize_candidates, found, known)
        if unread := count_unread(messages, readable):
            dropped[UNREAD] = unread
        return ExtractedMemories(kept, reports, dropped)

    def normalize_candidates(
        self,
        ctx: MemoryContext,  # noqa: ARG002 -- the port names it
        candidates: Sequence[CandidateMemory],
    ) -> list[CandidateMemory]:
        """Trim and bound them, and drop what is empty, said twice or holds a credential."""
        return self._normalize_candidates(candidates, RecalledTexts(frozenset(), ()))[0]

    def _clean_messages(self, messages: Sequence[Message], known: RecalledTexts) -> list[Message]:
        """Return the messages without what KnowHub said, every credential covered: a sentence may hold a part of it."""
        safe = [replace(message, content=cover_secrets(message.content)) for message in messages]
        return remove_recalled(safe, known)

    async def _run(
        self, extractor: CandidateExtractor, messages: Sequence[Message], archive: SessionArchive, ctx: MemoryContext
    ) -> tuple[Sequence[CandidateMemory], Mapping[str, Any]]:
        try:
            async with asyncio.timeout(self._options.extractor_s):
                found = list(await extractor.extract(messages, archive, ctx))
        except TimeoutError:
            return (), {"candidates": 0, "failed": f"not done within {self._options.extractor_s:g} s"}
        except Exception as failed:  # noqa: BLE001 -- whatever one raises is its own failure
            # What it says may quote the session, and this is kept where no erasing looks.
            return (), {"candidates": 0, "failed": f"it raised {type(failed).__name__}"}
        return found, {"candidates": len(found), "failed": None}

    def _normalize_candidates(
        self, candidates: Sequence[CandidateMemory], known: RecalledTexts
    ) -> tuple[list[CandidateMemory], dict[str, int]]:
        kept: dict[tuple[str, str, str], CandidateMemory] = {}
        dropped: Counter[str] = Counter()
        for candidate in (
            self._without_secret_notes(_limit_candidate(candidate_memory)) for candidate_memory in candidates
        ):
            problem = self._problem(candidate, known)
            identity = (candidate.category.value, candidate.routing_key.casefold(), _identity(candidate))
            if problem:
                dropped[problem] += 1
            elif identity in kept:
                kept[identity] = _merge_candidates(kept[identity], candidate)
                dropped["duplicate"] += 1
            elif len(kept) == MAX_CANDIDATES:
                dropped["too_many"] += 1
            else:
                kept[identity] = candidate
        return list(kept.values()), dict(dropped)

    def _without_secret_notes(self, candidate: CandidateMemory) -> CandidateMemory:
        """Drop notes that contain a credential; the calls still count."""
        uses = [
            {**use, "note": ""} if use.get("note") and contains_secret(str(use["note"])) else use
            for use in candidate.facts.get("uses", ())
        ]
        return replace(candidate, facts={**candidate.facts, "uses": uses}) if uses else candidate

    def _problem(self, candidate: CandidateMemory, known: RecalledTexts) -> str:
        """Return why a candidate is dropped; empty where it is not."""
        if not candidate.routing_key or not candidate.abstract or not candidate.content:
            return "empty"
        text = f"{candidate.routing_key}\n{candidate.abstract}\n{candidate.overview}\n{candidate.content}"
        if COVER in text or contains_secret(text):
            return "secret"
        return "recalled" if known.is_said_in(candidate.abstract) or known.is_said_in(candidate.content) else ""


def _limit_candidate(candidate: CandidateMemory) -> CandidateMemory:
    return replace(
        candidate,
        routing_key=one_line(candidate.routing_key)[:_MAX_KEY].strip(),
        abstract=shorten(one_line(candidate.abstract), _MAX_ABSTRACT),
        overview=shorten(candidate.overview.strip(), _MAX_OVERVIEW) or one_line(candidate.abstract),
        content=shorten(candidate.content.strip(), _MAX_CONTENT),
        confidence=min(max(candidate.confidence, 0.0), 1.0),
        source_refs=list(dict.fromkeys(candidate.source_refs))[-_MAX_SOURCES:],
    )


def _identity(candidate: CandidateMemory) -> str:
    # The calls of one tool add up, whatever the text about them says.
    return "" if candidate.category in _COUNTED else normalize_words(candidate.content)


def _merge_candidates(first: CandidateMemory, again: CandidateMemory) -> CandidateMemory:
    sources = list(dict.fromkeys((*first.source_refs, *again.source_refs)))[-_MAX_SOURCES:]
    facts = dict(first.facts)
    if "uses" in facts or "uses" in again.facts:
        facts["uses"] = [*facts.get("uses", ()), *again.facts.get("uses", ())]
    return replace(first, source_refs=sources, confidence=max(first.confidence, again.confidence), facts=facts)


def has_failed_calls(calls: Sequence[Row]) -> bool:
    """Return whether a model that was asked gave no usable answer at least once."""
    return any(call["failure"] is not None for call in calls)
