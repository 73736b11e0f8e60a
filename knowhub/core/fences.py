"""Data in a prompt: one line of JSON between two markers, which nothing in it can write (KT-276)."""

import json
from collections.abc import Mapping
from typing import Any

FENCE = ("<data>", "</data>")
# Inside the fence these could look like its end or like a new line; as JSON escapes they say the same. The last four
# are `<` and `>` in other widths, which the NFKC of many a model's tokenizer makes one with them.
_FENCED = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>\x7f\x85\u2028\u2029\uff1c\uff1e\ufe64\ufe65"})


def fenced(data: Mapping[str, Any]) -> str:
    """Put data between the markers as JSON on one line; nothing in it can write a marker or a line break."""
    # Lone surrogates come in through Python callers, and no server accepts them.
    text = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace").decode()
    return f"{FENCE[0]}\n{text.translate(_FENCED)}\n{FENCE[1]}"
