"""What leaves for a model: no credential, and all that only looks like one."""

import json
import random
import re
import string
from pathlib import Path
from typing import Final

import pytest

from knowhub.conversations.cleaning import clean_messages
from knowhub.conversations.messages import Message
from knowhub.conversations.secrets.detection import COVER, redact_secrets
from tests.credential_texts import make_credentials, make_harmless

DATA: Final = Path(__file__).parents[2] / "data"
# One sentence a line, in English and Chinese. Secrets are marked by «[[…]]».
PLAIN_SECRETS: Final = (DATA / "plain_secrets.txt").read_text("utf-8").splitlines()
PLAIN_HARMLESS: Final = (DATA / "plain_harmless.txt").read_text("utf-8").splitlines()
_MARKED: Final = re.compile(r"\[\[(.*?)\]\]")


def test_a_thousand_credentials_are_all_redacted() -> None:
    left = [text for text, credential in make_credentials(1000) if credential in redact_secrets(text)]

    assert left == []


def test_two_thousand_harmless_texts_are_unchanged() -> None:
    changed = [text for text in make_harmless(2000) if redact_secrets(text) != text]

    assert changed == []


@pytest.mark.parametrize("line", PLAIN_SECRETS)
def test_a_secret_in_plain_words_is_redacted(line: str) -> None:
    marked = line.replace("\\n", "\n")
    rest = _MARKED.sub(" ", marked)

    redacted = redact_secrets(_MARKED.sub(r"\1", marked))

    # A word such as «admin» may be the name of the account too.
    assert [secret for secret in _MARKED.findall(marked) if redacted.count(secret) > rest.count(secret)] == []


@pytest.mark.parametrize("text", PLAIN_HARMLESS)
def test_what_mentions_a_secret_in_plain_words_is_unchanged(text: str) -> None:
    assert redact_secrets(text) == text


def test_a_credential_on_the_line_below_its_name_is_found() -> None:
    assert "mO2Q5Exmir5EP_v" not in redact_secrets('variable "db_password" {\n  default = "mO2Q5Exmir5EP_v"\n}')


def test_a_random_word_without_context_is_not_redacted() -> None:
    text = "The file is called mO2Q5Exmir5EP_v and was made on Monday."

    assert redact_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("the password, well, hunter2", "hunter2"),
        ("the password... uh, it's hunter2 I think", "hunter2"),
        ("the combination of the safe is 12-34-56", "12-34-56"),
        ("the safe's combination is 12 34 56", "12 34 56"),
        ("the code for the garage door is 4821", "4821"),
        ("the gate code's 4821", "4821"),
        ("my PIN, I think, is 4821", "4821"),
        ("密码，我想想，是 hunter22", "hunter22"),
        ("门禁码4821", "4821"),
        ('the password is "summer password 24"', "summer password 24"),
        ("以後用 hunter_2pass 當密碼", "hunter_2pass"),
    ],
)
def test_a_secret_is_found_behind_words_of_speech(text: str, secret: str) -> None:
    assert secret not in redact_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "the password, as you know, is kept in the vault",
        "the password was changed on 2026-05-01",
        "password reset for user42 failed, the password of server42 is old",
        "I set the PIN in 2021, the PIN has 4 digits",
        "the combination of 3 and 5 is 8, a combination of 2024 and 2025 models",
        "the zip code is 12345, the error code is 1603",
        "密码是 8-16 位，验证码5分钟内有效",
    ],
)
def test_what_is_said_about_secrets_is_unchanged(text: str) -> None:
    assert redact_secrets(text) == text


@pytest.mark.parametrize(
    ("question", "answer", "covered"),
    [
        ("To unlock it, what's your PIN?", "4821", COVER),
        ("Please enter the password for the mail.", "sunshine", COVER),
        ("What is the password?", "it's 48 21 55 I believe", f"it's {COVER} I believe"),
        ("密码是多少？", "芝麻开门", COVER),
        ("验证码发给我", "是 482911", f"是 {COVER}"),
        ("How long should a password be?", "12 characters, at least 1 digit", "12 characters, at least 1 digit"),
        ("What is the token limit of the model?", "4096", "4096"),
        ("Do you have the PIN?", "Yes.", "Yes."),
        ("密码是什么？", "不知道", "不知道"),
        ("When do you leave?", "At 4821 Main Street by 10:30", "At 4821 Main Street by 10:30"),
    ],
)
def test_the_answer_to_a_question_for_a_secret_is_covered(question: str, answer: str, covered: str) -> None:
    cleaned = clean_messages([Message("assistant", question), Message("user", answer)])

    assert [message.content for message in cleaned] == [question, covered]


def make_key(chars: int) -> str:
    """Make a private key in PEM with so many characters of base64."""
    chance = random.Random(chars)
    body = "".join(chance.choices(string.ascii_letters + string.digits + "+/", k=chars))
    lines = [body[at : at + 64] for at in range(0, chars, 64)]
    return "\n".join(["-----BEGIN RSA " + "PRIVATE KEY-----", *lines, "-----END RSA " + "PRIVATE KEY-----"])


@pytest.mark.parametrize("before", [0, 8_000, 12_000, 16_384, 40_000])
@pytest.mark.parametrize("chars", [6_400, 12_700])
def test_a_long_private_key_is_redacted_to_its_end(chars: int, before: int) -> None:
    key = make_key(chars)
    start, end = "We moved to Paris.\n" * (before // 19), "\nKeep it safe. " + "We moved to Paris.\n" * 1_000

    plain = redact_secrets(start + key + end)
    escaped = redact_secrets(json.dumps(start + key + end))

    assert plain == f"{start}[private_key]{end}"
    assert [line for line in key.splitlines() if line in escaped] == []


@pytest.mark.parametrize("before", [0, 12_000, 16_380])
@pytest.mark.parametrize(
    "name", ["password is ", "refresh_token=", "Cookie: session=", "Authorization: Bearer ", "jwt: "]
)
def test_a_secret_of_one_long_word_is_redacted_to_its_end(name: str, before: int) -> None:
    chance = random.Random(name)
    parts = ["".join(chance.choices(string.ascii_letters + string.digits, k=3_000)) for _ in range(3)]
    secret = ".".join(f"eyJ{part}" for part in parts)
    start = "We moved to Paris.\n" * (before // 19)

    redacted = redact_secrets(f"{start}{name}{secret} We moved to Rome.")

    assert [at for at in range(0, len(secret), 100) if secret[at : at + 100] in redacted] == []
    assert redacted.startswith(start + name)
    assert redacted.endswith("] We moved to Rome.")


def test_codes_on_several_lines_are_redacted_in_json() -> None:
    text = json.dumps({"said": "My backup codes:\n- 48213355\n- 93302817\nand that is all."})

    assert redact_secrets(text) == r'{"said": "My backup codes:\n- [pin]\nand that is all."}'


def test_a_secret_that_begins_inside_another_is_redacted_to_its_end() -> None:
    text = """the password is "blue pass: zz9'xy7k!" today"""

    assert redact_secrets(text) == 'the password is "[password] today'
