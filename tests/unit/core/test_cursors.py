"""Cursors: what one says to whoever made it, and that it says nothing to anybody else."""

from itertools import pairwise
from string import ascii_letters, digits

import pytest

from knowhub.core.cursors import CursorCodec
from knowhub.core.errors import InvalidInput

SECRET = "5f" * 16
PLACES = range(2_000)


def encode_cursor(place: int, secret: str = SECRET) -> str:
    text = CursorCodec(secret).encode("default", "knowledge", place)
    assert text is not None
    return text


def test_cursors_reveal_neither_order_nor_distance() -> None:
    texts = [encode_cursor(place) for place in PLACES]

    rising = sum(item < other for item, other in pairwise(texts))

    assert len(set(texts)) == len({text[:8] for text in texts}) == len({text[-8:] for text in texts}) == len(PLACES)
    assert 0.45 < rising / len(texts) < 0.55


def test_a_changed_cursor_is_refused() -> None:
    text = encode_cursor(7)
    others = [
        text[:at] + letter + text[at + 1 :]
        for at in range(len(text))
        for letter in ascii_letters + digits + "-_ =.٣"
        if letter != text[at]
    ]

    for other in [*others, "", text[:-1], f"{text}A", f"{text}\n", "7", *map(str, range(100))]:
        with pytest.raises(InvalidInput, match="next_cursor"):
            CursorCodec(SECRET).decode("default", "knowledge", other)


@pytest.mark.parametrize(
    ("secret", "account", "collection"),
    [(SECRET, "other", "knowledge"), (SECRET, "default", "infos"), ("6a" * 16, "default", "knowledge")],
)
def test_a_cursor_is_valid_for_one_list_account_and_log(secret: str, account: str, collection: str) -> None:
    with pytest.raises(InvalidInput, match="next_cursor"):
        CursorCodec(secret).decode(account, collection, encode_cursor(7))
