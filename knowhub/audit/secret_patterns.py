"""How credentials look: a small table of exact forms, and what only looks like one."""

import re
from collections.abc import Callable
from dataclasses import dataclass

_NOT_INSIDE = r"(?<![A-Za-z0-9_-])"
_ENDS = r"(?![A-Za-z0-9_-])"
_VALUE = r"[!-~]{6,256}"
QUOTE = r"[\"'`“”‘’「]"
_NAME_ENDS = rf"{QUOTE}?\s{{0,8}}"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One form. Where none of `hints` stands in the text in lower case, the expression need not be tried.

    The group `secret` is what must not be shown. A value that is `chosen` by a person, as passwords are, is checked
    against what stands in manuals; the forms of makers speak for themselves. `is_valid` tells a number that is one from
    a number that only has its form.
    """

    name: str
    hints: tuple[str, ...]
    expression: re.Pattern[str]
    is_chosen: bool = False
    is_valid: Callable[[str], bool] | None = None


def _token(name: str, hints: tuple[str, ...], form: str) -> Pattern:
    return Pattern(name, hints, re.compile(rf"{_NOT_INSIDE}(?P<secret>{form}){_ENDS}"))


def _chosen(name: str, hints: tuple[str, ...], form: str) -> Pattern:
    return Pattern(name, hints, re.compile(form), is_chosen=True)


PATTERNS = (
    Pattern(
        "private_key",
        ("private key-----",),
        # Its body holds no run of five dashes, so that nothing is read twice; a mention without a body is none.
        re.compile(
            r"(?P<secret>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?=[\w\s\\:,.-]{0,200}?[A-Za-z0-9+/]{32})"
            r"(?:[A-Za-z0-9+/=\s\\:,.]|-(?!----)){0,4000}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?)"
        ),
    ),
    _token("aws_access_key_id", ("akia", "asia"), r"(?:AKIA|ASIA)[A-Z0-9]{16}"),
    Pattern(
        "aws_secret_access_key",
        ("secret_access_key", "secretaccesskey"),
        re.compile(
            rf"(?i:secret_?access_?key){_NAME_ENDS}[:=]\s{{0,8}}{QUOTE}?"
            r"(?P<secret>[A-Za-z0-9/+=]{40})(?![A-Za-z0-9/+=])"
        ),
    ),
    _token("gcp_api_key", ("aiza",), r"AIza[A-Za-z0-9_-]{35}"),
    _token("google_oauth_token", ("ya29.",), r"ya29\.[A-Za-z0-9_-]{30,512}"),
    _token("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    _token("github_fine_grained_token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{60,255}"),
    _token("knowhub_key", ("kh_",), r"kh_[0-9a-f]{16}_[A-Za-z0-9_-]{43}"),
    _token("gitlab_token", ("glpat-",), r"glpat-[A-Za-z0-9_-]{20,64}"),
    _token("slack_token", ("xox",), r"xox[abeoprs]-[A-Za-z0-9-]{20,255}"),
    Pattern(
        "slack_webhook",
        ("hooks.slack.com/",),
        re.compile(r"hooks\.slack\.com/(?P<secret>services/T[A-Za-z0-9]{6,16}/B[A-Za-z0-9]{6,16}/[A-Za-z0-9]{18,64})"),
    ),
    _token("anthropic_key", ("sk-ant-",), r"sk-ant-[A-Za-z0-9_-]{24,255}"),
    _token("openai_key", ("sk-",), r"sk-(?:(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{24,255}|[A-Za-z0-9]{32,64})"),
    _token("stripe_key", ("k_live_",), r"[rs]k_live_[A-Za-z0-9]{20,255}"),
    _token("npm_token", ("npm_",), r"npm_[A-Za-z0-9]{36}"),
    _token("pypi_token", ("pypi-",), r"pypi-AgEI[A-Za-z0-9_-]{50,512}"),
    _token("huggingface_token", ("hf_",), r"hf_[A-Za-z0-9]{34}"),
    _token("aliyun_access_key_id", ("ltai",), r"LTAI[A-Za-z0-9]{16,26}"),
    _token("tencent_secret_id", ("akid",), r"AKID[A-Za-z0-9]{32}"),
    _token("sendgrid_key", ("sg.",), r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}"),
    _token("telegram_bot_token", (":aa",), r"\d{8,10}:AA[A-Za-z0-9_-]{30,40}"),
    _token("jwt", ("eyj",), r"eyJ[A-Za-z0-9_-]{10,512}\.eyJ[A-Za-z0-9_-]{10,3000}\.[A-Za-z0-9_-]{16,700}"),
    _chosen(
        "connection_string",
        ("://",),
        r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@\"'<>]{0,128}:(?P<secret>[^\s/@\"'<>]{3,256})@[\w\[]",
    ),
    _chosen(
        "authorization_header",
        ("bearer ", "basic ", "token "),
        rf"(?i:authorization){_NAME_ENDS}[:=]\s{{0,8}}{QUOTE}?(?i:bearer|basic|token)\s{{1,4}}"
        r"(?P<secret>[A-Za-z0-9._~+/=-]{16,4096})",
    ),
    _chosen(
        "password",
        ("password", "passwd", "passphrase", "pwd"),
        rf"(?i:password|passwd|passphrase|(?<![a-z])pwd){_NAME_ENDS}(?::|=|：|＝|\bis\b)\s{{0,8}}"
        rf"{QUOTE}?(?P<secret>{_VALUE})",
    ),
    _chosen(
        "named_key",
        ("key", "token", "secret"),
        r"(?i:(?<![a-z])(?:api|access|auth|account|client|private|signing|encryption|app|refresh|session|bot)"
        rf"[_ -]?(?:key|token|secret)|(?<![a-z])(?:secret|token)(?:[_-]?key)?){_NAME_ENDS}(?::|=|：|＝)\s{{0,8}}"
        rf"{QUOTE}?(?P<secret>[A-Za-z0-9_./+=~-]{{16,256}})",
    ),
    _chosen(
        "password_zh",
        ("密码", "口令", "密碼"),
        rf"(?:密码|密碼|口令)\s{{0,4}}(?:是|为|為|设为|设置为|改为|[:：=＝]){{1,2}}\s{{0,8}}"
        rf"{QUOTE}?(?P<secret>{_VALUE})",
    ),
    _chosen(
        "named_key_zh",
        ("密钥", "秘钥", "密鑰", "令牌"),
        rf"(?:密钥|秘钥|密鑰|令牌)\s{{0,4}}(?:是|为|為|[:：=＝]){{1,2}}\s{{0,8}}"
        rf"{QUOTE}?(?P<secret>[A-Za-z0-9_./+=~-]{{12,256}})",
    ),
)

# What stands in the place of a value in manuals, code and schemas.
PLACEHOLDER = re.compile(
    r"""
    ^[\[({<$%#*{]            # <password>, ${PASSWORD}, %s, ***
    | [<>{}()\[\]$]          # a call, a template, markup
    | \*{3} | x{4} | X{4} | \.{3} | …
    | (?i: ^(?:your|my|some|the|test|dummy|fake|sample|changeme|change_me|placeholder|redacted|masked|hidden) )
    | (?i: example | placeholder )
    | (?i: ^(?:sha|md|aes|rsa|des|hmac|hs|rs|es|base|utf|bcrypt|scrypt|argon|ed|x|pbkdf|pkcs)-?\d{1,5}\w{0,6}$ )
    | (?i: ^(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|string|null|none|true|false|required|optional)\d{0,3}$ )
    | (?i: ^(?:os|process|env|self|config|settings|request|args|options|ctx|data|params)[.\[] )
    | ^knowledge-\d{8}-[0-9a-f]{4,}$
    | ^https?://
    """,
    re.VERBOSE,
)
