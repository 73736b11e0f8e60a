"""Models in ONNX, written by hand: the part of its protobuf that a transformer needs."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Attribute: TypeAlias = int | float | Sequence[int]
_IR_VERSION, _OPSET = 9, 20
_FLOAT, _INT64 = 1, 7
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 7


@dataclass(slots=True)
class Graph:
    """A graph that grows node by node; every method returns the name of the new value."""

    inputs: Sequence[str]
    nodes: list[bytes] = field(default_factory=list)
    tensors: list[bytes] = field(default_factory=list)
    _made: int = 0

    def node(self, operator: str, *given: str, **attributes: Attribute) -> str:
        """Apply an operator of the opset to values that are named."""
        made = self._name(operator)
        fields = [_text(1, name) for name in given] + [_text(2, made), _text(3, made), _text(4, operator)]
        fields += [_message(5, _attribute(name, value)) for name, value in attributes.items()]
        self.nodes.append(b"".join(fields))
        return made

    def tensor(self, values: npt.ArrayLike, dtype: type[np.generic] = np.float32) -> str:
        """Keep a constant, such as weights."""
        array = np.ascontiguousarray(values, dtype=dtype)
        made = self._name("tensor")
        kind = _FLOAT if array.dtype == np.float32 else _INT64
        dims = [_number(1, size) for size in array.shape]
        self.tensors.append(b"".join([*dims, _number(2, kind), _text(8, made), _bytes(9, array.tobytes())]))
        return made

    def build_model(self, output: str) -> bytes:
        """Return the model whose result is `output`."""
        parts = [_message(1, node) for node in self.nodes]
        parts += [_text(2, "graph"), *(_message(5, tensor) for tensor in self.tensors)]
        parts += [_message(11, _value(name, _INT64, ["batch", "tokens"])) for name in self.inputs]
        parts.append(_message(12, _value(output, _FLOAT, None)))
        opset = _text(1, "") + _number(2, _OPSET)
        return _number(1, _IR_VERSION) + _message(7, b"".join(parts)) + _message(8, opset)

    def _name(self, what: str) -> str:
        self._made += 1
        return f"{what}_{self._made}"


def _value(name: str, kind: int, axes: Sequence[str] | None) -> bytes:
    shape = b"" if axes is None else _message(2, b"".join(_message(1, _text(2, axis)) for axis in axes))
    return _text(1, name) + _message(2, _message(1, _number(1, kind) + shape))


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, _FLOAT_ATTRIBUTE)
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _INT_ATTRIBUTE)
    return _text(1, name) + b"".join(_number(8, item) for item in value) + _number(20, _INTS_ATTRIBUTE)


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _message(number: int, written: bytes) -> bytes:
    return _bytes(number, written)


def _bytes(number: int, written: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(written)) + written


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    # Negative numbers are their 64 bits.
    value &= (1 << 64) - 1
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
