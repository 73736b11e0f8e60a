"""Pages of infos: the part of a keyword's infos, or of all infos, that one caller sees (KT-208, KT-241, G-06)."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from knowhub.core.errors import InvalidInput, TooLarge
from knowhub.core.request_context import RequestContext
from knowhub.keywords import fields
from knowhub.keywords.model import INFOS, LINKS, InfoHead, InfoQuery, link_id
from knowhub.keywords.ports import KeywordView

MAX_SIZE = 1_000
MAX_SHOWN_BYTES = 1024 * 1024
MAX_PAGE_BYTES = 64 * 1024 * 1024
MAX_USES = 5_000
"""A page that looked at more infos than this is not kept: what may change it is too much to remember."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A page of a keyword's infos, and the id of every info that was looked at for it, shown or not.

    A page stays true until the keyword, one of its links or one of `examined` changes: an info that the caller does
    not see may come into sight, and what stands before the page decides where it begins.
    """

    shown: Sequence[InfoHead]
    examined: Sequence[str]


@dataclass(frozen=True, slots=True)
class InfoPage:
    """A page of infos as JSON text, newest first; `next_before` is the ordinal to go on from, None on the last."""

    records: Sequence[bytes]
    next_before: int | None


def page_of_keyword(view: KeywordView, ctx: RequestContext, keyword_id: str, query: InfoQuery) -> Looked:
    """Return the page of a keyword's infos that the query asks for; past the end it is empty (G-06).

    Raises InvalidInput for a page or a size that no list has.
    """
    check_query(query)
    first, end = query.page * query.size, (query.page + 1) * query.size
    shown: list[InfoHead] = []
    examined: list[str] = []
    visible = 0
    for head in view.infos_of_keyword(keyword_id, query):
        examined.append(head.id)
        if not _is_shown(ctx, head):
            continue
        visible += 1
        if visible > first:
            shown.append(head)
        if visible == end:
            break
    return Looked(shown, examined)


def info_rows(view: KeywordView, heads: Iterable[InfoHead]) -> list[bytes]:
    """Return infos as JSON text, just as the log holds them."""
    return [view.raw(INFOS, head.id) or b"" for head in heads]


def first_rows(view: KeywordView, heads: Iterable[InfoHead]) -> list[bytes]:
    """Return the infos that a search shows of a page: all of them, or as many as 1 MiB holds, one at least."""
    rows: list[bytes] = []
    size = 0
    for head in heads:
        row = view.raw(INFOS, head.id) or b""
        size += len(row)
        if rows and size > MAX_SHOWN_BYTES:
            break
        rows.append(row)
    return rows


def linked_rows(view: KeywordView, keyword_id: str, heads: Iterable[InfoHead]) -> list[bytes]:
    """Return infos as JSON text, each with the `relation` and `created_by` of its link to this keyword.

    Raises TooLarge when they are more than 64 MiB.
    """
    rows = []
    size = 0
    for head in heads:
        raw, link = view.raw(INFOS, head.id), view.get(LINKS, link_id(head.id, keyword_id))
        size += len(raw or b"")
        if size > MAX_PAGE_BYTES:
            raise TooLarge(f"this page has more than {MAX_PAGE_BYTES} bytes of infos; ask for a smaller size")
        if raw is not None and link is not None:
            told = {name: link[name] for name in ("relation", "created_by")}
            rows.append(raw[:-1] + b"," + json.dumps(told, ensure_ascii=False).encode()[1:])
    return rows


def seen_heads(ctx: RequestContext, heads: Iterable[InfoHead], before: int | None) -> Iterator[InfoHead]:
    """Yield those of `heads` that are live, older than `before`, and seen by the caller."""
    return (head for head in heads if _is_shown(ctx, head) and (before is None or head.ordinal < before))


def page_of(view: KeywordView, heads: Sequence[InfoHead], limit: int) -> InfoPage:
    """Return the first `limit` of `heads` as a page; one more of them says that the page is not the last."""
    shown = heads[:limit]
    return InfoPage(info_rows(view, shown), shown[-1].ordinal if len(heads) > limit else None)


def check_query(query: InfoQuery) -> None:
    """Raise InvalidInput for a negative page, and for a size under 1 or over 1,000 (G-06)."""
    if fields.whole("page", query.page) < 0:
        raise InvalidInput.of("page", "counts from 0 and is not negative")
    check_size("size", query.size)


def check_size(field: str, size: int) -> None:
    """Raise InvalidInput when a page would hold none, or more than 1,000."""
    if not 1 <= fields.whole(field, size) <= MAX_SIZE:
        raise InvalidInput.of(field, f"must be between 1 and {MAX_SIZE}")


def page_key(ctx: RequestContext, keyword_id: str, query: InfoQuery) -> str:
    """Name a page of a keyword's infos as this caller sees it (KT-208)."""
    relation = query.relation.value if query.relation else "*"
    page = f"{relation}:{query.sort.value}:{query.size}:p{query.page}"
    return f"kw:{ctx.account}:{keyword_id}:infos:{page}:{reader(ctx)}"


def reader(ctx: RequestContext) -> str:
    """Name what the caller sees, so that nothing that is kept for one reaches another who sees less."""
    return _reader(ctx.visible)


def _is_shown(ctx: RequestContext, head: InfoHead) -> bool:
    return head.live and ctx.sees(head.audience)


# A caller asks many times with the same set, which costs more to sort and hash than an exact search.
@lru_cache(maxsize=1_024)
def _reader(visible: frozenset[str] | None) -> str:
    if visible is None:
        return "*"
    return blake2b("\x1f".join(sorted(visible)).encode(), digest_size=16).hexdigest()
