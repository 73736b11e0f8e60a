"""AES-256-GCM for sealed bodies, and the accepted forms of a master key."""

from base64 import b64encode, urlsafe_b64encode

import pytest

from knowhub.core.ids import random_bytes
from knowhub.providers.cipher import AesGcm, master_key
from knowhub.resources.ports import UnsealError

KEY = bytes(range(32))


@pytest.fixture
def cipher() -> AesGcm:
    return AesGcm(random_bytes)


def test_sealed_data_opens_in_its_context(cipher: AesGcm) -> None:
    nonce, data = cipher.seal(KEY, b"secret", b"place")

    assert cipher.open(KEY, nonce, data, b"place") == b"secret"
    assert b"secret" not in data


def test_nonces_are_never_repeated(cipher: AesGcm) -> None:
    nonces = {cipher.seal(KEY, b"secret", b"place")[0] for _ in range(1000)}

    assert len(nonces) == 1000


def test_every_flipped_bit_is_found(cipher: AesGcm) -> None:
    nonce, data = cipher.seal(KEY, b"secret", b"place")

    for index in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[index // 8] ^= 1 << index % 8
        with pytest.raises(UnsealError):
            cipher.open(KEY, nonce, bytes(flipped), b"place")


@pytest.mark.parametrize(
    ("key", "place", "shorter_by"),
    [(bytes(32), b"place", 0), (KEY, b"another place", 0), (KEY, b"place", 1), (KEY, b"place", 17)],
)
def test_another_key_context_or_length_does_not_open(cipher: AesGcm, key: bytes, place: bytes, shorter_by: int) -> None:
    nonce, data = cipher.seal(KEY, b"secret", b"place")

    with pytest.raises(UnsealError):
        cipher.open(key, nonce, data[: len(data) - shorter_by], place)


@pytest.mark.parametrize(
    "text",
    [KEY.hex(), KEY.hex().upper(), b64encode(KEY).decode(), urlsafe_b64encode(KEY).decode(), f" {KEY.hex()}\n"],
)
def test_a_master_key_of_32_bytes_is_used_directly(text: str) -> None:
    assert master_key(text).key == KEY


def test_a_key_is_derived_from_other_text() -> None:
    derived = master_key("correct horse battery staple and more")

    assert len(derived.key) == 32
    assert derived == master_key("correct horse battery staple and more")
    assert derived.key != master_key("correct horse battery staple and less").key


def test_text_of_key_length_that_is_no_key_is_derived() -> None:
    assert len(master_key("z" * 64).key) == 32
    assert len(master_key("-" * 44).key) == 32
    assert len(master_key("ab " * 21 + "c").key) == 32
    assert len(master_key("ab " * 20 + "abcd").key) == 32
    assert len(master_key("这是一个足够长的口令这是一个足够长的口令这是一个足够长的口令这是口令").key) == 32


@pytest.mark.parametrize("text", ["", "short", "x" * 31, " " * 40])
def test_a_short_master_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="at least 32 characters"):
        master_key(text)


def test_the_repr_of_a_key_hides_it() -> None:
    key = master_key(KEY.hex())

    assert KEY.hex() not in repr(key)
    assert repr(KEY) not in repr(key)
