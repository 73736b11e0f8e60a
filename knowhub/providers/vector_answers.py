"""From what an embeddings server answered to vectors of length 1: nothing in the answer is taken on trust."""

import base64
import binascii
from array import array
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from knowhub.core.embedding import Vector
from knowhub.providers.http import Unusable


def vectors_in(answer: Mapping[str, object], count: int) -> list[Vector]:
    """Return the vectors of `count` texts, in the order of these. Raises Unusable where they are not all there."""
    data = answer.get("data")
    parts = [part for part in data if isinstance(part, Mapping)] if isinstance(data, list) else []
    if not isinstance(data, list) or len(parts) != len(data) or len(parts) != count:
        raise Unusable(f"the server's answer holds {len(parts)} embeddings, and {count} were asked for")
    rows = [_numbers(part.get("embedding")) for part in in_order(parts)]
    if len({len(row) for row in rows}) > 1 or not len(rows[0]):
        raise Unusable("the server's embeddings are not of one dimension")
    matrix = np.array(rows, dtype=np.float64)
    if not np.isfinite(matrix).all():
        raise Unusable("a number in the server's embeddings is not finite")
    return unit_vectors(matrix)


def in_order(parts: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Return the parts by their `index`, which may be missing everywhere. Raises Unusable unless each is there once."""
    indexes = [part.get("index") for part in parts]
    if all(index is None for index in indexes):
        return list(parts)
    placed = {index: part for index, part in zip(indexes, parts, strict=True) if type(index) is int}
    if placed.keys() != set(range(len(parts))):
        raise Unusable("the indexes in the server's answer are not those of what was sent")
    return [placed[index] for index in range(len(parts))]


def unit_vectors(matrix: npt.NDArray[np.float64]) -> list[Vector]:
    """Return the rows, each divided by its length; a row of zeros stays one."""
    # By the largest number first: the square of one of 1e200 is no number any more.
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    scaled = matrix / np.where(largest, largest, 1.0)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit = (scaled / np.where(lengths, lengths, 1.0)).astype(np.float32)
    return [array("f", row.tobytes()) for row in unit]


def _numbers(embedding: object) -> Sequence[float] | npt.NDArray[np.float32]:
    try:
        return _read(embedding)
    except (binascii.Error, ValueError, TypeError, OverflowError):
        # Its text may repeat what the server sent.
        raise Unusable("an embedding in the server's answer is no list of numbers") from None


def _read(embedding: object) -> Sequence[float] | npt.NDArray[np.float32]:
    if isinstance(embedding, str):
        # What servers send that were asked for `base64`: little-endian, whatever the machine.
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    if isinstance(embedding, list):
        # An array refuses what is no number, where numpy reads "1.5" as one and null as NaN.
        return array("d", embedding)
    raise TypeError
