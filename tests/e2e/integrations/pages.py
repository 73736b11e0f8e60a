"""The programs of docs/how-to/use-*.md, and what the pages say that they print."""

import re

from tests.e2e.server_process import ROOT

_PROGRAM = re.compile(r"^```python\n(.*?)^```$.*?^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_program(page: str, heading: str = "") -> tuple[str, str]:
    """Return the first program of a page, or of one behind a heading, and the block behind it."""
    _, _, text = (ROOT / f"docs/how-to/{page}.md").read_text("utf-8").partition(heading or "# ")
    found = _PROGRAM.search(text)
    assert found is not None
    return found[1], found[2]
