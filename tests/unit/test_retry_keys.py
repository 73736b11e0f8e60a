"""Retry keys: who used one, for how long it is known, and that another body is refused."""

from dataclasses import replace

import pytest

from knowhub.core.errors import InvalidInput
from knowhub.core.operation import Operation
from knowhub.stores.files.retries import RetryKeys
from tests.builders import START, knowledge_row, operation, retry_key

LIFETIME_S = 100.0


def used(seq: int, key: str, timestamp: float = START) -> Operation:
    return replace(operation(knowledge_row(), seq=seq, idempotency=retry_key(key)), timestamp=timestamp)


def test_a_key_leads_to_its_operation_until_its_lifetime_ends() -> None:
    keys = RetryKeys(LIFETIME_S)
    keys.remember(used(7, "a"), START)

    assert keys.find("default", retry_key("a"), START + LIFETIME_S) == 7
    assert keys.find("default", retry_key("a"), START + LIFETIME_S + 1) is None
    assert keys.find("default", retry_key("b"), START) is None


def test_a_key_is_known_to_its_own_account_caller_and_route_only() -> None:
    keys = RetryKeys(LIFETIME_S)
    keys.remember(used(7, "a"), START)
    others = [replace(retry_key("a"), **{name: "other"}) for name in ("principal", "method", "path", "key")]

    assert keys.find("other", retry_key("a"), START) is None
    assert [keys.find("default", other, START) for other in others] == [None] * 4


def test_another_body_under_a_known_key_is_refused_until_the_key_expires() -> None:
    keys = RetryKeys(LIFETIME_S)
    keys.remember(used(7, "a"), START)

    with pytest.raises(InvalidInput):
        keys.find("default", retry_key("a", body="other"), START)
    assert keys.find("default", retry_key("a", body="other"), START + LIFETIME_S + 1) is None


def test_a_key_that_was_used_anew_after_its_lifetime_leads_to_the_newer_operation() -> None:
    keys = RetryKeys(LIFETIME_S)
    keys.remember(used(1, "a"), START)
    keys.remember(used(2, "b", START + 50), START + 50)

    keys.remember(used(3, "a", START + 200), START + 200)

    assert keys.find("default", retry_key("a"), START + 250) == 3
    assert keys.find("default", retry_key("b"), START + 250) is None


def test_old_keys_of_a_log_that_is_read_again_are_not_taken_in() -> None:
    keys = RetryKeys(LIFETIME_S)

    keys.remember(used(1, "a", START), START + LIFETIME_S + 1)

    assert keys.find("default", retry_key("a"), START) is None
