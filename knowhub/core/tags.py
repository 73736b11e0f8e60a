"""Tags as filters: a row with the tag `domain: web` has the facet `tag.domain:web`."""

from collections.abc import Mapping, Sequence


def tag_facets(tags: Mapping[str, str | Sequence[str]]) -> tuple[str, ...]:
    """Return a facet for each value of each tag."""
    return tuple(
        f"tag.{name}:{value}"
        for name, values in tags.items()
        for value in ((values,) if isinstance(values, str) else values)
    )
