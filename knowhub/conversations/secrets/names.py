"""How people call what must stay secret: choices of a regular expression, in lower case."""

from typing import Final

PASSWORD: Final = "password|passwd|passphrase|passcode|pwd"  # noqa: S105 -- names, no password
# `re` skips quickly to a set of letters, and slowly to a choice of words.
PASSWORD_REST: Final = "|".join(name.removeprefix("p") for name in PASSWORD.split("|"))
PASSWORD_NAME: Final = rf"[Pp](?i:{PASSWORD_REST})"
"""A password's name in any case, also as the end of a name: DB_PASSWORD."""
PASSWORD_WORD: Final = rf"[Pp](?<!\w.)(?i:{PASSWORD_REST})"
"""The same as a word of its own, or the beginning of one."""
PASSWORD_ZH: Final = "密码|密碼|口令|暗号|暗號"  # noqa: S105 -- names, no password
# «AES-256», «argon2id»: how secrets are kept and made safe.
METHOD: Final = (
    r"(?:sha|aes|rsa|des|hmac|base|utf|bcrypt|scrypt|argon|pbkdf|pkcs)[-_]?\d|md[2-6]|[hre]s(?:256|384|512)"
    r"|ed(?:25519|448)|x(?:509|25519)"
)
KEY_KINDS: Final = "api|access|auth|account|client|private|signing|encryption|app|refresh|session|bot|license"
KEY_ZH: Final = "密匙|密钥|密鑰|秘钥|令牌"
ONE_TIME_CODE_ZH: Final = "验证码|驗證碼"


def list_names(*choices: str) -> tuple[str, ...]:
    """Return the names in these choices."""
    return tuple(name for choice in choices for name in choice.split("|"))
