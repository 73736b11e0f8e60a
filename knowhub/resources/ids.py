"""What an id of a resource may be: a path such as `code/selenium/login` (RS-002), which leads nowhere but down."""

import unicodedata

from knowhub.core.errors import InvalidInput

MAX_ID_CHARS = 512

_NO_PART = frozenset({"", ".", ".."})
_ALWAYS_REFUSED = ("%", "\\")
_REFUSED_KINDS = ("Cc", "Cs")


def resource_id_problem(resource_id: str) -> str | None:
    """Say what is wrong with an id; None when nothing is.

    No file is named by it here. But whoever lays resources out as files, and unquotes or normalises what they are
    given first, must not be led out of their folder: so the id is looked at as that would leave it, too.
    """
    if len(resource_id) > MAX_ID_CHARS:
        return f"must have at most {MAX_ID_CHARS} characters"
    if not resource_id.isprintable() and any(unicodedata.category(char) in _REFUSED_KINDS for char in resource_id):
        return "must not hold control characters"
    forms = {resource_id} if resource_id.isascii() else {resource_id, unicodedata.normalize("NFKC", resource_id)}
    if any(_leads_astray(form) for form in forms):
        return "must be a path such as code/selenium/login, without %, \\, or an empty, . or .. part"
    return None


def check_resource_id(resource_id: str, field: str = "id") -> str:
    """Return the id. Raises InvalidInput where it is none."""
    problem = resource_id_problem(resource_id)
    if problem:
        raise InvalidInput.of(field, problem)
    return resource_id


def _leads_astray(path: str) -> bool:
    return any(char in path for char in _ALWAYS_REFUSED) or any(part.strip() in _NO_PART for part in path.split("/"))
