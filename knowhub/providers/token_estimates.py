"""How many tokens a request has, where the server does not count them."""

_BYTES_A_TOKEN = 3


def estimate_request_tokens(text: bytes) -> int:
    """Guess the tokens of UTF-8 text: a Chinese character, or three letters, are one."""
    return len(text) // _BYTES_A_TOKEN + 1
