"""What leaves for a model: no credential, and all that only looks like one."""

from knowhub.conversations.secrets import redact_secrets
from tests.credential_texts import make_credentials, make_harmless


def test_a_thousand_credentials_are_all_redacted() -> None:
    left = [text for text, credential in make_credentials(1000) if credential in redact_secrets(text)]

    assert left == []


def test_two_thousand_harmless_texts_are_unchanged() -> None:
    changed = [text for text in make_harmless(2000) if redact_secrets(text) != text]

    assert changed == []


def test_a_credential_on_the_line_below_its_name_is_found() -> None:
    assert "mO2Q5Exmir5EP_v" not in redact_secrets('variable "db_password" {\n  default = "mO2Q5Exmir5EP_v"\n}')


def test_a_random_word_without_context_is_not_redacted() -> None:
    text = "The file is called mO2Q5Exmir5EP_v and was made on Monday."

    assert redact_secrets(text) == text
