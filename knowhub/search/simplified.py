"""Traditional Chinese in simplified characters, one for one."""

from typing import Final

import opencc

_convert: Final = opencc.OpenCC("t2s").convert


def simplified(text: str) -> str:
    """Return a text of the same length in simplified characters; half a surrogate pair becomes a question mark."""
    if text.isascii():
        return text
    whole = text.encode("utf-8", "replace").decode()
    found = _convert(whole)
    # A phrase may have a form of another length: then each character stands for itself.
    return found if len(found) == len(whole) else "".join(_convert(char)[:1] or char for char in whole)
