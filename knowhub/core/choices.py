"""What a model may point at: offered things by number or id, and its short texts read without trust (C-21)."""

from collections.abc import Iterable, Mapping, Sequence

MAX_POINTED = 50
_MAX_READ = 1_000
_MAX_IDX_DIGITS = 9


class Choices:
    """What was shown: candidates by idx, from 1 anew each round (G-03), and ids that are accepted beside them."""

    def __init__(self, ids: Sequence[str], also: Iterable[str] = ()) -> None:
        self._listed = tuple(ids)
        self._ids = frozenset((*ids, *also))

    @property
    def by_idx(self) -> Mapping[str, str]:
        """What each idx of the prompt stood for, as the log keeps it for a replay."""
        return {str(idx): node_id for idx, node_id in enumerate(self._listed, 1)}

    def pick(self, pointed: object) -> str | None:
        """Return the id that is meant: by idx, by idx as text, or by an id that was shown; None for anything else."""
        if isinstance(pointed, str):
            text = pointed.strip()
            if text in self._ids:
                return text
            return self._numbered(int(text)) if text.isdecimal() and len(text) <= _MAX_IDX_DIGITS else None
        # True is an int in Python, and nobody's idx.
        if isinstance(pointed, int) and not isinstance(pointed, bool):
            return self._numbered(pointed)
        return None

    def pick_all(self, pointed: Iterable[object]) -> tuple[str, ...]:
        """Return each id that is meant once, in the order of the answer, at most MAX_POINTED; the rest is dropped."""
        picked = (self.pick(one) for one in pointed)
        return tuple(dict.fromkeys(node_id for node_id in picked if node_id is not None))[:MAX_POINTED]

    def _numbered(self, idx: int) -> str | None:
        return self._listed[idx - 1] if 0 < idx <= len(self._listed) else None


def pointed_at(value: object) -> Sequence[object]:
    """Return what a field names, one or several; blanks, with which models fill a field, name nothing."""
    many = value[:_MAX_READ] if isinstance(value, list | tuple) else [value]
    return [one for one in many if one is not None and not (isinstance(one, str) and not one.strip())]


def short_text(value: object, limit: int) -> str:
    """Return text as one line of at most `limit` characters; anything that is not text is empty."""
    if not isinstance(value, str):
        return ""
    # A lone half of a surrogate pair is text that no file and no answer can hold, and NUL none that a name may hold.
    line = " ".join(value[: limit * 4].replace("\0", " ").encode("utf-8", "replace").decode().split())
    return line[:limit].rstrip()
