"""One audit: every row looked at by each detector, oldest first, then the copies among them gathered."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from knowhub.audit import suggestions
from knowhub.audit.collected import Collected
from knowhub.audit.documents import document, live_documents
from knowhub.audit.model import Document, Finding, Kind, Question, Report, Severity
from knowhub.audit.pasted_secrets import Secret, excerpt, find_secrets, pieces
from knowhub.audit.ports import AuditView, Showings
from knowhub.audit.quotes import Anchors, Hit, Quote, quotable, quote
from knowhub.audit.renderings import rendering_in, source_is_a_search
from knowhub.audit.staleness import never_found, stale_reasons
from knowhub.core.clock import iso
from knowhub.core.clusters import Cluster, Clusters
from knowhub.core.pace import Pace
from knowhub.core.request_context import RequestContext
from knowhub.keywords.model import INFOS, KEYWORDS
from knowhub.keywords.tree_metrics import TreeMetrics
from knowhub.knowledge.model import COLLECTION

RELATED_SHOWN = 50
AUTHORS_SHOWN = 10
SEVERAL_AUTHORS = 3
_QUOTES_SHOWN = 5
# Rows have times in whole milliseconds: what was shown within that of the save came before it.
_ROW_TIME_S = 0.001
_SECRETS_SHOWN = 10
_MEMBERS_A_STEP = 512
_GRAVE_STALE = ("expired", "bad_evidence")
_COLLECTIONS = (COLLECTION, INFOS)


class Examination:
    """Looks at the rows of one caller once. Of each it keeps its id, author and time, and what copies are known by."""

    def __init__(self, view: AuditView, ctx: RequestContext, question: Question, showings: Showings) -> None:
        self._view = view
        self._ctx = ctx
        self._question = question
        self._showings = showings
        self._pace = Pace()
        self._found = Collected(question)
        self._clusters = Clusters(self._text_of)
        self._anchors = Anchors()
        self._ids: list[str] = []
        self._kinds = bytearray()
        self._authors: list[str] = []
        self._names: dict[str, str] = {}
        self._times = array("d")
        self._junk = bytearray()

    async def report(self, now: float) -> Report:
        """Do all of it and return what was found; `now` in seconds since the epoch."""
        for one in await live_documents(self._view, self._ctx, self._pace):
            await self._examine(one, now)
            await self._pace.pause()
        for _ in self._clusters.gathering():
            await self._pace.pause()
        for cluster in self._clusters.clusters():
            if cluster is not None:
                await self._note_cluster(cluster)
            await self._pace.pause()
        doubles = await self._double_keywords()
        infos = self._kinds.count(1)
        return Report(
            account=self._ctx.account,
            records=len(self._kinds) - infos,
            infos=infos,
            junk=self._junk.count(1),
            summary=self._found.summary({Kind.DUPLICATE: doubles}),
            findings=self._found.findings(),
            searches_known_since=self._showings.known_since,
        )

    async def _examine(self, one: Document, now: float) -> None:
        number = self._take_in(one)
        await self._look_for_secrets(one)
        if one.collection == COLLECTION:
            self._look_at_its_time(number, one, now)
        is_copy = self._clusters.put(number, one.whole, one.collection) is not None
        await self._look_for_a_loop(number, one, is_copy=is_copy)

    def _take_in(self, one: Document) -> int:
        self._ids.append(one.id)
        self._kinds.append(_COLLECTIONS.index(one.collection))
        self._authors.append(self._names.setdefault(one.author, one.author))
        self._times.append(one.created_at)
        self._junk.append(0)
        return len(self._ids) - 1

    async def _look_for_secrets(self, one: Document) -> None:
        found: dict[tuple[str, int], Secret] = {}
        for field, text in one.texts.items():
            for piece, offset in pieces(text) if text else ():
                # Where a piece ends within a secret, the next one has more of it.
                found |= {(field, secret.start): secret for secret in find_secrets(piece, offset)}
                await self._pace.pause()
        if found:
            shown = [
                {"field": field, "pattern": secret.pattern, "at": at, "redacted": secret.redacted}
                for (field, at), secret in list(found.items())[:_SECRETS_SHOWN]
            ]
            evidence = {"secrets": shown, "count": len(found)}
            self._found.add(_finding(Kind.SECRET, Severity.PROBLEM, one, evidence, suggestions.CREDENTIAL))

    def _look_at_its_time(self, number: int, one: Document, now: float) -> None:
        superseder = self._superseder(one, now)
        reasons = stale_reasons(one.row, superseder, now, self._question.stale_days)
        if reasons:
            self._junk[number] |= "expired" in reasons
            severity = Severity.WARNING if any(name in reasons for name in _GRAVE_STALE) else Severity.NOTE
            related = [superseder] if superseder else []
            first = next(iter(reasons))
            evidence = {"reasons": reasons}
            self._found.add(_finding(Kind.STALE, severity, one, evidence, suggestions.STALE[first], related))
        last_shown = self._showings.last_shown(self._ctx.account, one.id)
        unused = never_found(one.row, last_shown, now, self._question.stale_days)
        if unused:
            told = {**unused, "shown_since": iso(self._showings.known_since), "shown": 0}
            self._found.add(_finding(Kind.NEVER_FOUND, Severity.NOTE, one, told, suggestions.NEVER_FOUND))

    def _superseder(self, one: Document, now: float) -> str | None:
        for newer in self._view.superseders(one.id):
            is_seen = newer.id != one.id and self._ctx.sees(newer.audience)
            if is_seen and (newer.valid_from is None or newer.valid_from <= now):
                return newer.id
        return None

    async def _look_for_a_loop(self, number: int, one: Document, *, is_copy: bool) -> None:
        evidence: dict[str, Any] = {}
        related: list[str] = []
        how: list[str] = []
        rendering = rendering_in(one.content)
        if rendering is not None:
            how.append(rendering.how)
            evidence["excerpt"] = excerpt(one.content[rendering.at :])
            related += (quoted for quoted in rendering.ids if quoted != one.id and self._is_seen(quoted))
        named = source_is_a_search(one.row["source"]) if one.collection == COLLECTION else None
        if named is not None:
            how.append("source_is_a_search")
            evidence["source"] = excerpt(named)
        quotes = [] if is_copy else await self._quotes(number, one)
        if quotes:
            how.append("quotes_a_row")
            evidence |= {"quotes": quotes[:_QUOTES_SHOWN], "quote_count": len(quotes)}
            related += (quotation["id"] for quotation in quotes[:_QUOTES_SHOWN])
        if how:
            self._junk[number] = 1
            evidence, related = {"how": how, **evidence}, list(dict.fromkeys(related))
            suggested = suggestions.FEEDBACK_LOOP
            self._found.add(_finding(Kind.FEEDBACK_LOOP, Severity.WARNING, one, evidence, suggested, related))

    def _is_seen(self, record_id: str) -> bool:
        head = self._view.head(record_id)
        return head is not None and self._ctx.sees(head.audience)

    async def _quotes(self, number: int, one: Document) -> list[dict[str, Any]]:
        """Return the quotes of earlier rows in this one, and keep what later ones would quote of it."""
        text = quotable(one.content)
        hits: list[Hit] = []
        for _ in self._anchors.hits(text, hits):
            await self._pace.pause()
        quotes: dict[int, dict[str, Any]] = {}
        for hit in hits:
            earlier = self._document(hit.number) if hit.number not in quotes else None
            made = quote(quotable(earlier.content), text, hit) if earlier is not None else None
            if earlier is not None and made is not None and one.row.get("supersedes") != earlier.id:
                quotes[hit.number] = self._quotation(number, earlier, made)
            await self._pace.pause()
        self._anchors.put(number, text)
        return list(quotes.values())

    def _quotation(self, number: int, earlier: Document, made: Quote) -> dict[str, Any]:
        quotation: dict[str, Any] = {
            "id": earlier.id,
            "chars": made.chars,
            "share": made.share,
            "wrapping_chars": made.wrapping_chars,
            "excerpt": excerpt(earlier.content),
        }
        last_shown = self._showings.last_shown(self._ctx.account, earlier.id)
        if last_shown is not None and last_shown < self._times[number] + _ROW_TIME_S:
            quotation["shown_s_before"] = max(0.0, round(self._times[number] - last_shown, 3))
        return quotation

    async def _note_cluster(self, cluster: Cluster) -> None:
        kept = self._document(cluster.kept)
        if kept is None:
            return
        said, count = await self._said(kept, cluster)
        if cluster.copies:
            copies = len(cluster.copies)
            evidence = {"copies": copies, **said}
            finding = _finding(
                Kind.DUPLICATE, Severity.WARNING, kept, evidence, suggestions.DUPLICATE, self._first_ids(cluster.copies)
            )
            self._found.add(finding, copies)
        if cluster.near:
            evidence = {**await self._resemblances(cluster), **said}
            related = self._first_ids(near.number for near in cluster.near)
            suggested = suggestions.NEAR_DUPLICATE
            self._found.add(
                _finding(Kind.NEAR_DUPLICATE, Severity.WARNING, kept, evidence, suggested, related), len(cluster.near)
            )
        if said["author_count"] >= SEVERAL_AUTHORS:
            evidence = {"how": ["handed_on"], "copies": count, **said}
            related = self._first_ids(_members(cluster))
            suggested = suggestions.SEVERAL_AUTHORS
            self._found.add(_finding(Kind.FEEDBACK_LOOP, Severity.NOTE, kept, evidence, suggested, related), count)

    async def _said(self, kept: Document, cluster: Cluster) -> tuple[dict[str, Any], int]:
        """Mark the copies of a cluster as junk; return who said it, when, and how it begins, and how many they are."""
        authors = {self._authors[cluster.kept]: None}
        last = kept.created_at
        count = 0
        for number in _members(cluster):
            self._junk[number] = 1
            authors[self._authors[number]] = None
            last = max(last, self._times[number])
            count += 1
            if count % _MEMBERS_A_STEP == 0:
                await self._pace.pause()
        said = {
            "authors": list(authors)[:AUTHORS_SHOWN],
            "author_count": len(authors),
            "first_at": iso(kept.created_at),
            "last_at": iso(last),
            "excerpt": excerpt(kept.content or kept.whole),
        }
        return said, count

    async def _resemblances(self, cluster: Cluster) -> dict[str, Any]:
        least, most = 1.0, 0.0
        for count, near in enumerate(cluster.near, 1):
            least, most = min(least, near.similarity), max(most, near.similarity)
            if count % _MEMBERS_A_STEP == 0:
                await self._pace.pause()
        shown = [
            {"id": self._ids[near.number], "to": self._ids[near.to], "similarity": near.similarity}
            for near in cluster.near[:RELATED_SHOWN]
        ]
        return {"copies": len(cluster.near), "similarity": {"least": least, "most": most}, "similar": shown}

    def _first_ids(self, numbers: Iterable[int]) -> list[str]:
        return [self._ids[number] for number in islice(numbers, RELATED_SHOWN)]

    async def _double_keywords(self) -> int:
        """Note the keywords that bear one name, the worst of them; return how many more there are."""
        metrics = TreeMetrics(self._view, self._ctx)
        for _ in metrics.counting():
            await self._pace.pause()
        figures = metrics.result()
        for double in figures["duplicates"]:
            first, *others = double["ids"]
            evidence = {"name": double["token"], "copies": len(others)}
            suggested = suggestions.KEYWORD_DUPLICATE
            self._found.add(
                Finding(Kind.DUPLICATE, Severity.NOTE, KEYWORDS, first, evidence, suggested, others), len(others)
            )
        return int(figures["duplicate_count"]) - len(figures["duplicates"])

    def _document(self, number: int) -> Document | None:
        return document(self._view, _COLLECTIONS[self._kinds[number]], self._ids[number])

    def _text_of(self, number: int) -> str | None:
        found = self._document(number)
        return None if found is None else found.whole


def _finding(
    kind: Kind, severity: Severity, one: Document, evidence: dict[str, Any], suggested: str, related: Sequence[str] = ()
) -> Finding:
    return Finding(kind, severity, one.collection, one.id, evidence, suggested, related)


def _members(cluster: Cluster) -> Iterator[int]:
    yield from cluster.copies
    yield from (near.number for near in cluster.near)
