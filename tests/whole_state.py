"""The whole state of an account, to compare before and after."""

from typing import Any

import orjson

from knowhub.keywords.model import INFOS, KEYWORDS, LINKS, make_link_id
from knowhub.keywords.tree import BY_INFO, INFO_TABLE, list_keywords
from knowhub.knowledge.model import KNOWLEDGE
from knowhub.knowledge.table import list_live_records
from knowhub.stores.files.store import FileStore

State = dict[tuple[str, str], dict[str, Any]]


def state_of(store: FileStore, account: str = "default") -> State:
    """Return every live row of an account by collection and id, without versions and times of change."""
    view = store.view(account)
    infos = [summary.id for summary in view.newest(INFO_TABLE)]
    keys = [
        *((KNOWLEDGE, summary.id) for summary in list_live_records(view)),
        *((KEYWORDS, node.id) for node in list_keywords(view)),
        *((INFOS, info_id) for info_id in infos),
        *(
            (LINKS, make_link_id(info_id, link.keyword_id))
            for info_id in infos
            for link in view.lookup(BY_INFO, info_id)
        ),
    ]
    return {key: _strip_bookkeeping(view.raw(*key) or b"{}") for key in keys}


def _strip_bookkeeping(text: bytes) -> dict[str, Any]:
    row: dict[str, Any] = orjson.loads(text)
    return {name: value for name, value in row.items() if name not in {"version", "updated_at"}}
