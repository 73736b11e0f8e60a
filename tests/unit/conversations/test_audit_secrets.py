"""Credentials are found in English and Chinese text by their form; what only looks like one is left alone."""

import base64
import hashlib
import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowhub.conversations.secrets.detection import (
    PIECE_CHARS,
    cut_pieces,
    find_possible_secrets,
    find_secrets,
    make_excerpt,
    mask_secrets,
)

RNG = random.Random(5)
ALPHANUMERIC = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def make_credential(prefix: str, length: int, alphabet: str = ALPHANUMERIC) -> str:
    """Make a credential in a vendor's format. This file contains none, so that scanners do not report it."""
    return prefix + "".join(RNG.choice(alphabet) for _ in range(length))


PRIVATE_KEY = "\n".join(
    (
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        make_credential("MII", 61),
        make_credential("", 64),
        "-----END RSA " + "PRIVATE KEY-----",
    )
)
JWT = ".".join((make_credential("eyJ", 30), make_credential("eyJ", 60), make_credential("", 43)))

PASTED = {
    "private_key": (f"the deploy key:\n{PRIVATE_KEY}\nkeep it", PRIVATE_KEY),
    "aws_access_key_id": (found := make_credential("AKIA", 16, "ABCDEFGHJKMNPQRSTUVWXYZ234567"), found),
    "aws_secret_access_key": (f"aws_secret_access_key = {(found := make_credential('', 40))}", found),
    "gcp_api_key": (f"用这个：{(found := make_credential('AIza', 35))}。", found),
    "github_token": (f"git clone https://{(found := make_credential('ghp_', 36))}@github.com/a/b", found),
    "github_fine_grained_token": (f"use {(found := make_credential('github_pat_', 82))}", found),
    "gitlab_token": (f"PRIVATE-TOKEN: {(found := make_credential('glpat-', 20))}", found),
    "slack_token": (f"xoxb is {(found := make_credential('xoxb-', 40))}", found),
    "slack_webhook": (
        f"https://hooks.slack.com/{(found := make_credential('services/T00000000/B00000000/', 24))}",
        found,
    ),
    "anthropic_key": (f"调用时带上 {(found := make_credential('sk-ant-api03-', 80))}", found),
    "openai_key": (f"OPENAI: {(found := make_credential('sk-proj-', 60))}", found),
    "stripe_key": (f"stripe {(found := make_credential('sk_live_', 24))} works", found),
    "npm_token": (f"//registry/:_authToken {(found := make_credential('npm_', 36))}", found),
    "huggingface_token": (f"hf login {(found := make_credential('hf_', 34))}", found),
    "aliyun_access_key_id": (f"阿里云 {(found := make_credential('LTAI', 20))}", found),
    "tencent_secret_id": (f"腾讯云 {(found := make_credential('AKID', 32))}", found),
    "jwt": (f"token: {JWT}", JWT),
    "connection_string": ("postgres://app:s3cr3t-pw@db.internal/main", "s3cr3t-pw"),
    "authorization_header": (f'curl -H "Authorization: Bearer {(found := make_credential("", 30) + "9z")}"', found),
    "password": ('password = "hunter2abc9"', "hunter2abc9"),
    "named_key": (f"API_KEY={(found := make_credential('k', 30) + '7')}", found),
    "password_zh": ("服务器的登录密码是 Tr0ub4dor&3，别告诉别人", "Tr0ub4dor&3"),
    "named_key_zh": (f"密钥：{(found := make_credential('q', 23) + '5')}", found),
    "knowhub_key": (f"X-API-Key: {(found := make_credential('kh_0123456789abcdef_', 43))}", found),
}

MORE_PASSWORDS = (
    ("DB_PASSWORD=Sup3rS3cret!", "Sup3rS3cret!"),
    ('{"password": "q1w2e3r4"}', "q1w2e3r4"),
    ("the password is Hunter2hunter2.", "Hunter2hunter2"),
    ("密码：Xk9#mm2q", "Xk9#mm2q"),
    ("数据库密码为「Xk9#mm2q」", "Xk9#mm2q"),
    ("口令: abc123XYZ!", "abc123XYZ!"),
    ("redis://:p4ssw0rd!!@10.0.0.1:6379/0", "p4ssw0rd!!"),
)

SPOKEN = (
    ("以后都用密码 Zx9#kkQ2w 登录数据库", "Zx9#kkQ2w"),
    ("Always log in with password Tr0ub4dor&3 on staging", "Tr0ub4dor&3"),
    ("以后都用口令：芝麻开门123", "芝麻开门123"),
    ("记住:PIN 码是 884213", "884213"),
    ("从现在起登录密码改成 Qw3rty!!z", "Qw3rty!!z"),
    ("I always use passphrase correct horse battery staple", "correct horse battery staple"),
    ("always mysql -u root -pHunter2!", "Hunter2!"),
    ("Always connect as user:Pa55w0rd!@db.example.com", "Pa55w0rd!"),
    ("Always use the cookie auth_token=xyz789uvw", "xyz789uvw"),
)
TOLD = (
    ("以后密码统一用 Zx9#kkQ2w", "Zx9#kkQ2w"),
    ("以后密码改用Zx9#kkQ2w", "Zx9#kkQ2w"),
    ("以后密码就用 Zx9#kkQ2w 吧", "Zx9#kkQ2w"),
    ("以后数据库的密码都是 Qw3rty9zz。", "Qw3rty9zz"),
    ("以后请用这个密码登录：Zx9#kkQ2w", "Zx9#kkQ2w"),
    ("以后 WiFi 密码都用 12345678。", "12345678"),
    ("我习惯把密码设成生日 19900307。", "19900307"),
    ("以後密碼統一用 Zx9#kkQ2w", "Zx9#kkQ2w"),
    ("以后都用密匙 Zx9kkQ2wPq 解锁。", "Zx9kkQ2wPq"),
    ("My password for gmail is Hk7ppQ2w and I always use it.", "Hk7ppQ2w"),
    ("The password of the staging db is Zx9kkQ2w, always use it.", "Zx9kkQ2w"),
    ("From now on the password = 'abc def 123!'", "abc def 123!"),
    ("I always use pass: Zx9kkQ2w for the VPN.", "Zx9kkQ2w"),
    ("Always set DB_PASS=s3cr3tpw in the env.", "s3cr3tpw"),
    ("From now on use api_key 9f8e7d6c5b4a39281706 for calls.", "9f8e7d6c5b4a39281706"),
    ("以后接口都用 token 9f8e7d6c5b4a39281706。", "9f8e7d6c5b4a39281706"),
    ("以后 API key 用 9f8e7d6c5b4a39281706。", "9f8e7d6c5b4a39281706"),
    ("我们一律用 secret=abcd1234 连接测试库。", "abcd1234"),
    ("the secret is swordfish99, always use it", "swordfish99"),
    ("Always use Authorization: Token 9f8e7d6c5b4a3928", "9f8e7d6c5b4a3928"),
    (f"Always use {(found := make_credential('SG.', 22) + make_credential('.', 43))} for mail.", found),
    (f"Always use bot {(found := make_credential('123456789:AA', 33))} for alerts.", found),
    ("The admin credentials are admin:hunter2, always use them.", "hunter2"),
    ("以后服务器都用 root/Qwe!2345 登录。", "Qwe!2345"),
    ("I always log in as admin/P@ssw0rd!.", "P@ssw0rd!"),
    ("my pin is 4921 and I always forget it", "4921"),
    ("My door code is 4921, always use it.", "4921"),
    ("I always use the 2FA seed JBSWY3DPEHPK3PXP.", "JBSWY3DPEHPK3PXP"),
    (
        "Always use the recovery phrase: apple banana cherry dog eagle fish grape house ink joke kite lemon",
        "apple banana cherry dog eagle fish grape house ink joke kite lemon",
    ),
    ("Always use my card 4111 1111 1111 1111 for payments.", "4111 1111 1111 1111"),
    ("Pay with 5500005555555559 from now on.", "5500005555555559"),
    ("以后付款都用我的银行卡 6222021234567890123。", "6222021234567890123"),
    ("My SSN is 078-05-1120, please always use it.", "078-05-1120"),
    ("我的身份证号是 110101199003071234。", "110101199003071234"),
    ("记住：密码是芝麻开门", "芝麻开门"),
    ("以后 WiFi 密码都用芝麻开门。", "芝麻开门"),
    ("以后的登录口令是 芝麻开门，别忘了。", "芝麻开门"),
    ("保险柜密码为“小桥流水人家”", "小桥流水人家"),
    ("请记住，暗号：天王盖地虎！", "天王盖地虎"),
    ("以後密碼統一用「芝麻開門」吧", "芝麻開門"),
    ("我习惯把密码改成春眠觉晓啊，你知道就好", "春眠觉晓"),
    ("后台的密码就是床前明月光。", "床前明月光"),
    ("测试库的密码必须是芝麻开门", "芝麻开门"),
    ("I like hunter2pass77 as my password", "hunter2pass77"),
    ("I prefer “Tr0ub4dor&3” as the root password.", "Tr0ub4dor&3"),
    ("I like the word correcthorsebatterystaple as passphrase", "correcthorsebatterystaple"),
    ("我喜欢用 hunter2pass77 当密码", "hunter2pass77"),
    ("把 hunter2pass77 作为我的邮箱密码", "hunter2pass77"),
    ("I prefer AKIA" + "IOSFODNN7EXAMPLE as key.", "AKIA" + "IOSFODNN7EXAMPLE"),
)
HARMLESS = (
    "密码都用 bcrypt 加密，不要用 MD5",
    "以后密码统一用 SHA-256 哈希",
    "密码每 90 天换一次",
    "密码改成 12 位以上",
    "我们的密码用 1Password 管理",
    "密码字段用 varchar(255)",
    "密码输入框的宽度是 200px",
    "密码是用户自己设置的，不要存明文",
    "The password for the staging db is at least 12 characters long.",
    "The password of every user is rotated every 90 days.",
    "Always hash the password with argon2id.",
    "PASS: tests/unit/test_a1.py",
    "pass: 120, fail: 3",
    "The token limit is 4096 tokens.",
    "Always use token based auth, never API keys.",
    "The secret is to retry 3 times.",
    "密钥用 RSA-2048，令牌用 JWT",
    "Use the credentials from the vault, admin/operator roles only.",
    "The seed phrase must always stay offline, under lock, with your notary and never in the cloud.",
    "The order number is 4111 1111 1111 1112.",
    "Call me at 555-123-4567 before 2026-11-21.",
    "Always log in as admin/operator first.",
    "src/main2 登录页面",
    "status code is 404 and the error code is 1045",
    "密码:6-20位",
    "密码长度不得少于12位",
    "密码是必填项",
    "密码是什么？",
    "密码是多少？",
    "密码是否正确",
    "密码为空时使用扫码登录",
    "密码为必填字段。",
    "密码是敏感信息，不要写进日志",
    "密码是明文存储的吗？",
    "密码是用户名加生日",
    "密码是由小写字母组成的字符串",
    "初始密码是系统随机生成。",
    "密码是错误的，请重新输入",
    "密码：请联系管理员",
    "密码：必填，字符串类型",
    "密码：见附件",
    "口令是一次性的，五分钟后过期",
    "口令是低频动作，收在账户设置里",
    "加密口令是单向加密算法处理的用户口令副本。",
    "以后密码都用哈希保存。",
    "以后密码统一用环境变量传入",
    "密码统一用钥匙串管理",
    "密码改成自动轮换。",
    "暗号是什么意思？",
    "密码是安全的第一道防线",
    "密码：每次安装只生成一次，避免用户每次开机都要去相机里重填",
    "密码叫什么都可以",
    "密码是保密的，谁也不能说",
    "密码用下划线命名法",
    "密码学是研究编码的科学",
    "口令为大小写敏感",
    "验证码是芝麻信用发来的短信",
    "I prefer passwords with 12 characters or more",
    "Always rotate passwords every 90 days",
    "I always use a passphrase for my ssh keys",
    "Always pin versions to 3.12",
    "Email me at li:work@example.com",
    "max_tokens=4096",
    "I like short words as my passwords",
    "We use bcrypt-12 as the password hash",
    "I prefer Keepass2 as password manager",
    "以后用 bcrypt-12 当密码哈希",
)

INNOCENT = (
    "AKIA" + "IOSFODNN7EXAMPLE",
    "knowledge-20261121-a3f9 supersedes knowledge-20261120-00aa",
    "token: knowledge-20261121-a3f9",
    str(uuid.UUID(int=RNG.getrandbits(128), version=4)),
    "sha256 " + hashlib.sha256(b"x").hexdigest(),
    "commit 3f786850e387550fdaab836ed7e6dc881de23001",
    "data:image/png;base64," + base64.b64encode(RNG.randbytes(30_000)).decode(),
    "password: required, at least 8 characters",
    'password="<your password>"',
    'password=os.environ["DB_PASSWORD"]',
    "password = getpass.getpass()",
    "password: $DB_PASS",
    "api_key = settings.llm_api_key",
    "api_key: str",
    "max_tokens: 4096",
    "access_token=token_response.access_token",
    "token: user_session_identifier",
    "postgres://user:password@localhost/db",
    "postgres://user:${PASS}@localhost/db",
    "https://example.com:8080/a@b and git@github.com:a/b.git",
    "A file that begins with -----BEGIN RSA " + "PRIVATE KEY----- holds a key.",
    "请把密码保存在安全的地方，不要写在代码里",
    "密码：请联系管理员",
    "密码为6-20位字母和数字",
    "密码是 sha256 加密的",
    "密钥：RSA-2048，令牌是 JWT",
    "the secret is to retry 3 times",
)


@pytest.mark.parametrize("pattern", PASTED)
def test_each_kind_of_secret_is_found_under_its_name(pattern: str) -> None:
    text, secret = PASTED[pattern]

    found = find_secrets(text)

    assert [item.pattern for item in found] == [pattern]
    assert text[found[0].start : found[0].end] == secret


@pytest.mark.parametrize(("text", "secret"), MORE_PASSWORDS)
def test_a_password_is_found_as_people_write_it(text: str, secret: str) -> None:
    found = find_secrets(text)

    assert [text[item.start : item.end] for item in found] == [secret]


@pytest.mark.parametrize(("text", "secret"), [*SPOKEN, *TOLD, *PASTED.values(), *MORE_PASSWORDS])
def test_conversations_are_searched_for_more_kinds(text: str, secret: str) -> None:
    (found,) = find_possible_secrets(text)

    assert secret in text[found.start : found.end]


@pytest.mark.parametrize("text", HARMLESS)
def test_talk_about_passwords_is_not_a_secret(text: str) -> None:
    assert find_possible_secrets(text) == []


def test_the_first_20_are_shown_and_all_are_withheld() -> None:
    secrets = [f"hunter{number}Xq!z" for number in range(50)]
    text = " ".join(f"password: {secret} ;" for secret in secrets)

    shown, withheld, safe = find_secrets(text), find_possible_secrets(text), mask_secrets(text)

    assert len(shown) == 20
    assert [text[item.start : item.end] for item in withheld] == secrets
    assert [secret for secret in secrets if secret in safe] == []


@pytest.mark.parametrize("text", INNOCENT, ids=lambda text: text[:30])
def test_harmless_text_has_no_secrets(text: str) -> None:
    assert find_secrets(text) == []


@pytest.mark.parametrize(("text", "secret"), [*PASTED.values(), *MORE_PASSWORDS])
def test_excerpts_never_hold_the_secret(text: str, secret: str) -> None:
    (found,) = find_secrets(text)

    shown = (found.redacted, mask_secrets(text), make_excerpt(text, 1000))

    assert all(secret not in item for item in shown)
    assert all(secret[2:-2] not in item for item in shown)
    assert f"({len(secret)} characters)" in found.redacted


def test_a_short_secret_is_redacted_completely() -> None:
    (short,), (long,) = find_secrets("密码：abc12X"), find_secrets("密码：abc12Xdef34Y")

    assert (short.redacted, long.redacted) == ("… (6 characters)", "ab…4Y (12 characters)")


def test_a_secret_is_found_across_pieces_of_a_long_text() -> None:
    token = make_credential("ghp_", 36)
    for start in range(PIECE_CHARS - 41, PIECE_CHARS + 2):
        text = "x" * (start - 1) + " " + token + " " + "y" * 40_000

        found = {
            (secret.start, secret.end) for piece, offset in cut_pieces(text) for secret in find_secrets(piece, offset)
        }

        assert (start, start + len(token)) in found


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_redaction_removes_every_secret_and_nothing_else(text: str) -> None:
    shown = mask_secrets(text)

    assert shown == text if not find_secrets(text) else find_secrets(shown) == []
