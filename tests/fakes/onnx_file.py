"""Models in ONNX, written by hand: the part of its protobuf that a transformer needs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_IR_VERSION, _OPSET = 9, 20
_FLOAT, _INT64 = 1, 7
_INT_ATTRIBUTE = 2


@dataclass(slots=True)
class Graph:
    """A graph that grows node by node; every method returns the name of the new value."""

    inputs: Sequence[str]
    nodes: list[bytes] = field(default_factory=list)
    tensors: list[bytes] = field(default_factory=list)
    _made: int = 0

    def node(self, operator: str, *given: str, **attributes: int) -> str:
        """Apply an operator of the opset to values that are named."""
        made = self._name(operator)
        fields = [_text(1, name) for name in given] + [_text(2, made), _text(3, made), _text(4, operator)]
        fields += [_bytes(5, _attribute(name, value)) for name, value in attributes.items()]
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
        parts = [_bytes(1, node) for node in self.nodes]
        parts += [_text(2, "graph"), *(_bytes(5, tensor) for tensor in self.tensors)]
        parts += [_bytes(11, _value(name, _INT64, ["batch", "tokens"])) for name in self.inputs]
        parts.append(_bytes(12, _value(output, _FLOAT, None)))
        opset = _text(1, "") + _number(2, _OPSET)
        return _number(1, _IR_VERSION) + _bytes(7, b"".join(parts)) + _bytes(8, opset)

    def _name(self, what: str) -> str:
        self._made += 1
        return f"{what}_{self._made}"


def _value(name: str, kind: int, axes: Sequence[str] | None) -> bytes:
    shape = b"" if axes is None else _bytes(2, b"".join(_bytes(1, _text(2, axis)) for axis in axes))
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + shape))


def _attribute(name: str, value: int) -> bytes:
    return _text(1, name) + _number(3, value) + _number(20, _INT_ATTRIBUTE)


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _bytes(number: int, written: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(written)) + written


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
