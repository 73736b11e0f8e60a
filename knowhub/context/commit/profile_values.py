"""What a person has but one of, after somebody has corrected their profile: by the statements that stand there now."""

from collections.abc import Mapping
from typing import Final

from knowhub.context.commit import blocks
from knowhub.context.extraction import own_values
from knowhub.core import clock
from knowhub.core.operation import Row

VALUES: Final = "values"
"""The key of a profile's metadata under which they stand, by their names."""


def corrected(before: Row, after: Row, now: float) -> Row:
    """Return a profile with another content: a value goes with its statement, that of a new one holds from now on.

    Else what was corrected away would go on replacing, and keeping out, what is said.
    """
    content, metadata = str(after["content"]), after["metadata"]
    if content == before["content"]:
        return after
    known: Mapping[str, Mapping[str, str]] = metadata.get(VALUES, {})
    values = {name: value for name, value in known.items() if blocks.says(content, value["text"])}
    for one in blocks.blocks(content):
        if not blocks.says(str(before["content"]), one.text):
            for name, value in own_values.values(one.text):
                values[name] = {"value": value, "text": one.text, "said_at": clock.iso(now)}
    return {**after, "metadata": {**metadata, VALUES: values}} if values or known else after
