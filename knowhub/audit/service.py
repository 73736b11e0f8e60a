"""Audits an account: duplicates, feedback loops, stale records and credentials."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from sys import intern
from typing import Any, NamedTuple

from knowhub.audit import model
from knowhub.audit.documents import find_stale, list_documents, read_document
from knowhub.audit.model import (
    AuditDocument,
    AuditQuery,
    AuditSeverity,
    FindingCollector,
    FindingKind,
    Report,
    RowFinding,
)
from knowhub.audit.quotes import (
    QuoteIndex,
    find_rendering,
    find_search_source,
    match_quote,
    normalize_quote,
)
from knowhub.conversations.secrets.detection import DetectedSecret, cut_pieces, find_secrets, make_excerpt
from knowhub.core.clock import Clock, CooperativePause, iso
from knowhub.core.near_duplicates import Cluster, ClusterBuilder
from knowhub.core.operation import Reads, View
from knowhub.core.request_context import RequestContext
from knowhub.keywords.curate.metrics import measure_tree
from knowhub.keywords.model import INFOS, KEYWORDS
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.knowledge.table import find_record, find_replacements

RELATED_SHOWN = 50
AUTHORS_SHOWN = 10
SEVERAL_AUTHORS = 3
_QUOTES_SHOWN = 5
_SECRETS_SHOWN = 10
# A longer text is compared in a thread: it takes more than a few milliseconds.
_MAX_INLINE_CHARS = 2_000
_GRAVE_STALE = ("expired", "bad_evidence")


class _SeenRow(NamedTuple):
    """What is kept of a row that was looked at. `created_at` in seconds since the epoch."""

    collection: str
    id: str
    author: str
    created_at: float


class AuditRun:
    """Looks at the rows of one caller once. Of each it keeps a `_SeenRow`, and what copies are known by."""

    def __init__(self, view: View, ctx: RequestContext, question: AuditQuery) -> None:
        self._view = view
        self._ctx = ctx
        self._question = question
        self._pace = CooperativePause()
        self._found = FindingCollector(question)
        self._clusters = ClusterBuilder(self._get_text)
        self._anchors = QuoteIndex()
        self._rows: list[_SeenRow] = []
        # The numbers of rows, which are their places in this list.
        self._junk: set[int] = set()

    async def report(self, now: float) -> Report:
        """Do all of it and return what was found; `now` in seconds since the epoch."""
        for item in await list_documents(self._view, self._ctx, self._pace):
            await self._check_row(item, now)
            await self._pace.pause()
        for cluster in await asyncio.to_thread(self._clusters.build):
            await self._report_cluster(cluster)
            await self._pace.pause()
        doubles = await self._count_duplicates()
        infos = sum(row.collection == INFOS for row in self._rows)
        return Report(
            account=self._ctx.account,
            records=len(self._rows) - infos,
            infos=infos,
            junk=len(self._junk),
            summary=self._found.count_findings({FindingKind.DUPLICATE: doubles}),
            findings=self._found.list_findings(),
        )

    async def _check_row(self, item: AuditDocument, now: float) -> None:
        number = len(self._rows)
        self._rows.append(_SeenRow(item.collection, item.id, intern(item.author), item.created_at))
        await self._check_secrets(item)
        if item.collection == KNOWLEDGE:
            self._check_staleness(number, item, now)
        # Copies are looked for among all rows. It returns what this one is a copy of.
        put = partial(self._clusters.put, number, item.full_text, item.collection)
        copied = await asyncio.to_thread(put) if len(item.full_text) > _MAX_INLINE_CHARS else put()
        await self._check_feedback_loop(number, item, is_copy=copied is not None)

    async def _check_secrets(self, item: AuditDocument) -> None:
        found: dict[tuple[str, int], DetectedSecret] = {}
        for field, text in item.texts.items():
            for piece, offset in cut_pieces(text) if text else ():
                # Where a piece ends within a secret, the next one has more of it.
                found |= {(field, secret.start): secret for secret in find_secrets(piece, offset)}
                await self._pace.pause()
        if found:
            shown = [
                {"field": field, "pattern": secret.pattern, "at": at, "redacted": secret.redacted}
                for (field, at), secret in list(found.items())[:_SECRETS_SHOWN]
            ]
            evidence = {"secrets": shown, "count": len(found)}
            self._add(FindingKind.SECRET, AuditSeverity.PROBLEM, item, evidence, model.CREDENTIAL)

    def _check_staleness(self, number: int, item: AuditDocument, now: float) -> None:
        superseder = self._find_newer(item, now)
        reasons = find_stale(item.row, superseder, now, self._question.stale_days)
        if reasons:
            self._junk |= {number} if "expired" in reasons else set()
            severity = AuditSeverity.WARNING if any(name in reasons for name in _GRAVE_STALE) else AuditSeverity.NOTE
            related = [superseder] if superseder else []
            suggested = model.STALE[next(iter(reasons))]
            self._add(FindingKind.STALE, severity, item, {"reasons": reasons}, suggested, related)

    def _find_newer(self, item: AuditDocument, now: float) -> str | None:
        for newer in find_replacements(self._view, item.id):
            is_seen = newer.id != item.id and self._ctx.sees(newer.audience)
            if is_seen and (newer.valid_from is None or newer.valid_from <= now):
                return newer.id
        return None

    async def _check_feedback_loop(self, number: int, item: AuditDocument, *, is_copy: bool) -> None:
        evidence: dict[str, Any] = {}
        related: list[str] = []
        how: list[str] = []
        rendering = find_rendering(item.content)
        if rendering is not None:
            how.append(rendering.how)
            evidence["excerpt"] = make_excerpt(item.content[rendering.at :])
            related += (quoted for quoted in rendering.ids if quoted != item.id and self._is_seen(quoted))
        named = find_search_source(item.row["source"]) if item.collection == KNOWLEDGE else None
        if named is not None:
            how.append("source_is_a_search")
            evidence["source"] = make_excerpt(named)
        quotes = [] if is_copy else await self._find_quotes(number, item)
        if quotes:
            how.append("quotes_a_row")
            evidence |= {"quotes": quotes[:_QUOTES_SHOWN], "quote_count": len(quotes)}
            related += (quotation["id"] for quotation in quotes[:_QUOTES_SHOWN])
        if how:
            self._junk.add(number)
            evidence, related = {"how": how, **evidence}, list(dict.fromkeys(related))
            self._add(FindingKind.FEEDBACK_LOOP, AuditSeverity.WARNING, item, evidence, model.FEEDBACK_LOOP, related)

    def _is_seen(self, record_id: str) -> bool:
        summary = find_record(self._view, record_id)
        return summary is not None and self._ctx.sees(summary.audience)

    async def _find_quotes(self, number: int, item: AuditDocument) -> list[dict[str, Any]]:
        """Return the quotes of earlier rows in this one, and keep what later ones would quote of it."""
        text = normalize_quote(item.content)
        hits = self._anchors.find_candidates(text)
        await self._pace.pause()
        quotes: dict[int, dict[str, Any]] = {}
        known: dict[int, tuple[AuditDocument | None, str]] = {}
        for hit in hits:
            if hit.number not in known:
                quoted = self._read_document(hit.number)
                known[hit.number] = quoted, normalize_quote(quoted.content) if quoted is not None else ""
            earlier, earlier_text = known[hit.number]
            made = match_quote(earlier_text, text, hit) if earlier is not None and hit.number not in quotes else None
            if earlier is not None and made is not None and item.row.get("supersedes") != earlier.id:
                quotes[hit.number] = {
                    "id": earlier.id,
                    "chars": made.chars,
                    "share": made.share,
                    "wrapping_chars": made.wrapping_chars,
                    "excerpt": make_excerpt(earlier.content),
                }
            await self._pace.pause()
        self._anchors.put(number, text)
        return list(quotes.values())

    def _find_kept(self, cluster: Cluster) -> tuple[Cluster, AuditDocument] | None:
        """Return a cluster with its oldest row that still exists: others may delete rows while the audit runs."""
        for index, number in enumerate([cluster.kept, *cluster.copies]):
            kept = self._read_document(number)
            if kept is not None:
                return Cluster(number, cluster.copies[index:], cluster.near), kept
        return None

    async def _report_cluster(self, found: Cluster) -> None:
        current = self._find_kept(found)
        if current is None:
            return
        cluster, kept = current
        details = await self._describe_cluster(kept, cluster)
        if cluster.copies:
            evidence, related = {"copies": len(cluster.copies), **details}, self._first_ids(cluster.copies)
            self._add(FindingKind.DUPLICATE, AuditSeverity.WARNING, kept, evidence, model.DUPLICATE, related)
        if cluster.near:
            evidence = {**self._format_similar(cluster), **details}
            related = self._first_ids(near.number for near in cluster.near)
            self._add(FindingKind.NEAR_DUPLICATE, AuditSeverity.WARNING, kept, evidence, model.NEAR_DUPLICATE, related)
        if details["author_count"] >= SEVERAL_AUTHORS:
            count = len(cluster.copies) + len(cluster.near)
            evidence = {"how": ["handed_on"], "copies": count, **details}
            related = self._first_ids(_members(cluster))
            self._add(FindingKind.FEEDBACK_LOOP, AuditSeverity.NOTE, kept, evidence, model.SEVERAL_AUTHORS, related)

    async def _describe_cluster(self, kept: AuditDocument, cluster: Cluster) -> dict[str, Any]:
        """Mark the copies of a cluster as junk; return who said it, when, and how it begins."""
        authors = {self._rows[cluster.kept].author: None}
        last = kept.created_at
        for number in _members(cluster):
            self._junk.add(number)
            authors[self._rows[number].author] = None
            last = max(last, self._rows[number].created_at)
            await self._pace.pause()
        return {
            "authors": list(authors)[:AUTHORS_SHOWN],
            "author_count": len(authors),
            "first_at": iso(kept.created_at),
            "last_at": iso(last),
            "excerpt": make_excerpt(kept.content or kept.full_text),
        }

    def _format_similar(self, cluster: Cluster) -> dict[str, Any]:
        similarities = [near.similarity for near in cluster.near]
        similarity = {"least": min(similarities), "most": max(similarities)}
        shown = [
            {"id": self._rows[near.number].id, "to": self._rows[near.to].id, "similarity": near.similarity}
            for near in cluster.near[:RELATED_SHOWN]
        ]
        return {"copies": len(cluster.near), "similarity": similarity, "similar": shown}

    def _first_ids(self, numbers: Iterable[int]) -> list[str]:
        return [self._rows[number].id for number in islice(numbers, RELATED_SHOWN)]

    async def _count_duplicates(self) -> int:
        """Report the keywords that share a name, the worst of them; return how many more there are."""
        figures: dict[str, Any] = {}
        for measured in measure_tree(self._view, self._ctx):
            figures = measured or figures
            await self._pace.pause()
        for double in figures["duplicates"]:
            first, *others = double["ids"]
            evidence = {"name": double["token"], "copies": len(others)}
            suggested = model.KEYWORD_DUPLICATE
            self._found.add(
                RowFinding(FindingKind.DUPLICATE, AuditSeverity.NOTE, KEYWORDS, first, evidence, suggested, others)
            )
        return int(figures["duplicate_count"]) - len(figures["duplicates"])

    def _add(
        self,
        kind: FindingKind,
        severity: AuditSeverity,
        item: AuditDocument,
        evidence: dict[str, Any],
        suggested: str,
        related: Sequence[str] = (),
    ) -> None:
        self._found.add(RowFinding(kind, severity, item.collection, item.id, evidence, suggested, related))

    def _read_document(self, number: int) -> AuditDocument | None:
        return read_document(self._view, self._rows[number].collection, self._rows[number].id)

    def _get_text(self, number: int) -> str | None:
        found = self._read_document(number)
        return None if found is None else found.full_text


def _members(cluster: Cluster) -> Iterator[int]:
    yield from cluster.copies
    yield from (near.number for near in cluster.near)


class AuditService:
    """Audits one account at a time, without a model, a few milliseconds a turn; it writes nothing."""

    def __init__(self, store: Reads, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        # Each needs memory for every row: those that come meanwhile wait.
        self._turn = asyncio.Lock()

    async def report(self, ctx: RequestContext, question: AuditQuery) -> Report:
        """Look at every live record and info that the caller sees.

        A row is judged by its state when its turn comes; rows saved meanwhile are not examined.
        """
        async with self._turn:
            await self._store.refresh(ctx.account)
            run = AuditRun(self._store.view(ctx.account), ctx, question)
            return await run.report(self._clock.now())
