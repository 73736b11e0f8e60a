"""Sealed bodies that tools revealed are redacted in transcripts; all other text is unchanged."""

import json

import pytest

from knowhub.conversations.messages import WITHHELD, Message, withhold_sealed_bodies

SECRET = 'horse "staple\\battery"\n第二行的密码\tend'
SEALED = {"id": "shop", "secure_body": SECRET, "title": "Shop"}
FENCED = (
    "A resource of kind text: shop.\n\n| id: shop\n| secure_body: horse\n|   staple\n|   battery\n| title: Shop\nDone."
)
PIECES = ("horse", "staple", "battery", "第二行")


def redact_reveals(content: str, role: str = "tool") -> str:
    (message,) = withhold_sealed_bodies([Message(role, content, "resource_get")])
    return message.content


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(SEALED),
        json.dumps(SEALED, ensure_ascii=False, indent=2),
        json.dumps({"result": [SEALED, SEALED]}),
        json.dumps({"text": json.dumps(SEALED)}),
        json.dumps({"text": json.dumps(SEALED, ensure_ascii=False)}, ensure_ascii=False),
        str(SEALED),
        json.dumps(SEALED)[:40],
        json.dumps({"text": json.dumps(SEALED)})[:60],
        f"'secure_body': \"{'horse'}\", 'title': 1",
        FENCED,
        "  " + FENCED.replace("\n", "\n  "),
    ],
)
@pytest.mark.parametrize("role", ["tool", "assistant", "function"])
def test_a_revealed_body_is_redacted_in_every_format(content: str, role: str) -> None:
    told = redact_reveals(content, role)

    assert [piece for piece in PIECES if piece in told] == []
    assert WITHHELD in told


def test_text_around_a_revealed_body_is_unchanged() -> None:
    assert json.loads(redact_reveals(json.dumps(SEALED))) == {**SEALED, "secure_body": WITHHELD}
    assert json.loads(json.loads(redact_reveals(json.dumps({"a": json.dumps(SEALED), "b": 1})))["a"])["title"] == "Shop"
    assert redact_reveals(FENCED) == FENCED.replace("horse\n|   staple\n|   battery", WITHHELD)


@pytest.mark.parametrize(
    "content",
    [
        "Is there a secure_body in it?",
        '{"secure_body": null, "has_secure_body": true}',
        '{"has_secure_body": "yes"}',
        "| has_secure_body: True",
        "Put it into `secure_body`, not into body: it is sealed.",
    ],
)
def test_messages_without_a_revealed_body_are_unchanged(content: str) -> None:
    assert redact_reveals(content) == content


def test_user_messages_are_unchanged() -> None:
    assert redact_reveals(json.dumps(SEALED), "user") == json.dumps(SEALED)
