"""The programs of docs/how-to/use-*.md, and what the pages say that they print."""

import re

from tests.e2e.server_process import ROOT

_PROGRAM = re.compile(r"^```python\n(.*?)^```$.*?^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_program(page: str) -> tuple[str, str]:
    """Return the first program of a page, and the block behind it."""
    found = _PROGRAM.search((ROOT / f"docs/how-to/{page}.md").read_text("utf-8"))
    assert found is not None
    return found[1], found[2]
