"""Texts with a credential in them, and texts that only look like it, in English and Chinese."""

import base64
import hashlib
import random
import string
import uuid
from collections.abc import Callable, Iterator

_LETTERS = string.ascii_letters
_SIGNS = "!@#$%^&*_-+="

_PROSE = [
    "My password is {}.",
    "the root password on that box is {} by the way",
    "You can log in with user deploy and password {}",
    "I changed the passphrase to {} yesterday",
    "Use {} as the password for the staging admin",
    "API key: {}",
    "our api token is {}, do not share it",
    "The secret for the webhook is {} and it never expires",
    "pwd {}",
    "wifi password -> {}",
    "Please remember: login bob / {}",
    "credentials: bob:{}",
    "The PIN of the vault is set, and its password = {}",
    "密码是{}",
    "密码是 {} 请不要告诉别人",
    "数据库密码:{}",
    "管理员口令为{}，请妥善保管",
    "我的密码改成了{}",
    "登录账号 admin 密码 {}",
    "用户名：bob，密码：{}",
    "令牌是 {}",
    "密钥：{}",
    "接口密钥为 {}。",
    "服务器的 root 密码是“{}”",
    "访问令牌（{}）今晚过期",
    "WiFi 密码 {}",
    "帐号 li 的密码已重置为 {}",
]
_TOOLS = [
    "2026-11-02 08:11:04 ERROR login failed user=bob password={} host=db1",
    'WARN request headers {{"Authorization": "Bearer {}"}}',
    "> Authorization: Bearer {}",
    "< set-cookie: session_token={}; Path=/",
    "X-Api-Key: {}",
    "export API_TOKEN={}",
    'export DB_PASSWORD="{}"',
    "AWS_SECRET_ACCESS_KEY={}",
    "curl -u bob:{} https://intranet.example/api",
    "curl -H 'Authorization: Token {}' https://api.example/v1",
    "mysql -u root -p{} shop",
    "mysql --password={} -u root",
    "sshpass -p {} ssh root@10.0.0.8",
    "PGPASSWORD={} psql -h db shop",
    "docker login -u bob -p {} registry.example",
    "redis-cli -a {} ping",
    "echo {} | docker login --password-stdin",
    "git clone https://bob:{}@git.example/team/repo.git",
    "htpasswd -b .htpasswd bob {}",
    "kubectl create secret generic db --from-literal=password={}",
]
_CODE = [
    'config = {{"password": "{}"}}',
    "password = '{}'",
    'client = Client(api_key="{}")',
    'const token = "{}";',
    "spring.datasource.password={}",
    "  password: {}",
    "db_password: '{}'",
    "<password>{}</password>",
    '<add key="ApiSecret" value="{}" />',
    "machine git.example login bob password {}",
    "smtp_pass: {}",
    "auth_token={}",
    'client_secret: "{}"',
    'private static final String PASSWD = "{}";',
    "os.environ['SECRET_KEY'] = '{}'",
    'identified by "{}"',
    "ALTER USER bob WITH PASSWORD '{}';",
    "requirepass {}",
]
_CONNECTIONS = [
    "postgres://bob:{}@db.internal:5432/shop",
    "DATABASE_URL=mysql://bob:{}@db/shop",
    "mongodb+srv://bob:{}@cluster0.example.net/shop",
    "amqp://guest:{}@mq:5672//",
    "redis://:{}@cache:6379/0",
    "Server=db;Database=shop;User Id=bob;Password={};",
    "jdbc:mysql://db/shop?user=bob&password={}",
    "https://hooks.example/x?access_token={}&v=2",
    "sftp://bob:{}@files.example/in",
]
CREDENTIAL_FORMS = [*_PROSE, *_TOOLS, *_CODE, *_CONNECTIONS]


def _make_password(source: random.Random) -> str:
    body = source.choices(_LETTERS, k=source.randint(5, 9)) + source.choices(string.digits, k=3)
    source.shuffle(body)
    return source.choice(_LETTERS) + "".join(body) + source.choice("!_-%") + source.choice(_LETTERS)


def _make_words(source: random.Random) -> str:
    names = ["Tiger", "Harbour", "Winter", "Coffee", "Orange", "Basel", "Falcon", "Dragon", "Xiaoming", "Beijing"]
    return source.choice(names) + source.choice(["", "-", "_"]) + str(source.randint(100, 99999)) + source.choice("!#")


def _make_token(source: random.Random) -> str:
    return "".join(source.choices(_LETTERS + string.digits, k=source.choice([24, 32, 40])))


_OWN_SHAPES: list[Callable[[random.Random], str]] = [
    lambda s: "sk-" + "".join(s.choices(_LETTERS + string.digits, k=48)),
    lambda s: "sk-ant-api03-" + "".join(s.choices(_LETTERS + string.digits + "_-", k=80)) + "AA",
    lambda s: "ghp_" + "".join(s.choices(_LETTERS + string.digits, k=36)),
    lambda s: "github_pat_" + "".join(s.choices(_LETTERS + string.digits, k=70)),
    lambda s: "glpat-" + "".join(s.choices(_LETTERS + string.digits, k=20)),
    lambda s: "xoxb-" + "-".join(str(s.randint(10**10, 10**11)) for _ in range(2)) + "-" + _make_token(s)[:24],
    lambda s: "AKIA" + "".join(s.choices(string.ascii_uppercase + "234567", k=16)),
    lambda s: "AIza" + "".join(s.choices(_LETTERS + string.digits, k=35)),
    lambda s: "npm_" + "".join(s.choices(_LETTERS + string.digits, k=36)),
    lambda s: "hf_" + "".join(s.choices(_LETTERS, k=34)),
    lambda s: "LTAI" + "".join(s.choices(_LETTERS + string.digits, k=20)),
    lambda s: "AKID" + "".join(s.choices(_LETTERS + string.digits, k=32)),
    lambda s: "sk_live_" + "".join(s.choices(_LETTERS + string.digits, k=24)),
]
_BARE_FORMS = ["{}", "I use {} for that.", "tried with {} and it worked", "用 {} 就可以了", "key in the log: {}"]


def make_credentials(count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Yield `count` texts, each with the credential that is in it."""
    source = random.Random(seed)
    makers = [_make_password, _make_words, _make_token]
    for number in range(count):
        if number % 5 == 0:
            form, credential = source.choice(_BARE_FORMS), source.choice(_OWN_SHAPES)(source)
        else:
            form, credential = CREDENTIAL_FORMS[number % len(CREDENTIAL_FORMS)], source.choice(makers)(source)
        yield form.format(credential), credential


_HARMLESS_FORMS: list[Callable[[random.Random], str]] = [
    lambda s: f"Commit {hashlib.sha1(s.randbytes(8)).hexdigest()} fixed it.",  # noqa: S324 -- what git makes
    lambda s: f"fixed in {s.randbytes(4).hex()[:7]}, see the changelog",
    lambda s: f"sha256:{hashlib.sha256(s.randbytes(8)).hexdigest()}",
    lambda s: f"The request id was {uuid.UUID(bytes=s.randbytes(16))}.",
    lambda s: f"Version {s.randint(0, 30)}.{s.randint(0, 30)}.{s.randint(0, 30)}-rc{s.randint(1, 9)} is out",
    lambda s: f"ticket AB-{s.randint(1000, 99999)} is closed",
    lambda s: f"order no. {s.randint(10**9, 10**10)} arrives on 2026-{s.randint(1, 12):02}-11",
    lambda s: f"https://example.com/docs/{s.randbytes(6).hex()}?page={s.randint(1, 99)}#top",
    lambda s: f"The image is app:{s.randbytes(6).hex()} on node-{s.randint(1, 99)}",
    lambda s: f"integrity sha512-{base64.b64encode(s.randbytes(64)).decode()}",
    lambda s: f"at 0x{s.randbytes(4).hex()} in main() line {s.randint(1, 999)}",
    lambda s: f"10.0.{s.randint(0, 255)}.{s.randint(0, 255)} answered in {s.randint(1, 900)} ms",
    lambda s: f"chmod 755 build-{s.randint(1, 999)}.sh && ./build-{s.randint(1, 999)}.sh --jobs 8",
    lambda s: f"model gpt-{s.randint(4, 6)}-mini-2026-0{s.randint(1, 9)}-01 took {s.randint(1, 9)}.2s",
    lambda s: f"The password must have {s.randint(8, 16)} characters and one digit.",
    lambda s: f"I reset my password {s.randint(2, 9)} times this week",
    lambda s: f"Each request costs {s.randint(100, 9000)} tokens.",
    lambda s: f"max_tokens={s.choice([256, 512, 1024, 4096])}, temperature=0.{s.randint(1, 9)}",
    lambda s: f"the token bucket holds {s.randint(10, 99)} tokens and refills in {s.randint(1, 9)}s",
    lambda s: "Use the variable API_TOKEN; never put its value into the code.",
    lambda s: f"password=${{DB_PASSWORD_{s.randint(1, 9)}}}",
    lambda s: "api_key = os.environ['API_KEY']",
    lambda s: f"row {s.randint(1, 10**6)}: primary key is user_id_{s.randint(1, 99)}",
    lambda s: f"密码错误{s.randint(2, 9)}次后账号会被锁定",
    lambda s: f"密码长度至少{s.randint(8, 16)}位，要有数字",
    lambda s: f"订单号 {s.randint(10**11, 10**12)} 已发货",
    lambda s: f"版本 v{s.randint(1, 9)}.{s.randint(0, 20)}.{s.randint(0, 20)} 修复了登录问题",
    lambda s: f"提交 {s.randbytes(20).hex()} 之后构建通过",
    lambda s: f"编号 {uuid.UUID(bytes=s.randbytes(16))} 的任务失败了",
    lambda s: f"本月用了 {s.randint(10, 99)} 万个 token，比上月少",
    lambda s: f"会议号 {s.randint(100, 999)}-{s.randint(100, 999)}-{s.randint(100, 999)}，下午三点",
    lambda s: f"车牌 沪A{s.randint(10000, 99999)}，电话 1{s.randint(3 * 10**9, 9 * 10**9)}",
    lambda s: (
        f"He scored {s.randint(10, 99)}% in module CS{s.randint(100, 499)}, room B{s.randint(1, 40)}-{s.randint(1, 9)}"
    ),
    lambda s: f"KnowHub id knowledge-2026{s.randint(1, 12):02}05-{s.randbytes(2).hex()}",
    lambda s: f"The secret of good bread is {s.randint(70, 80)}% hydration.",
    lambda s: f"Key {s.randint(1, 9)}: a small house is read faster (see Fig{s.randint(1, 20)})",
    lambda s: f"the key insight: batch{s.randint(2, 64)} beats batch1 by {s.randint(2, 9)}x",
    lambda s: f"ISBN 978-3-16-{s.randint(100000, 999999)}-0, second edition",
    lambda s: f"flight LH{s.randint(100, 9999)} seat {s.randint(1, 40)}C, gate A{s.randint(1, 30)}",
    lambda s: f"Token refresh happens every {s.randint(5, 60)} minutes; login works again after that.",
]


def make_harmless(count: int, seed: int = 1) -> Iterator[str]:
    """Yield `count` texts that hold no credential."""
    source = random.Random(seed)
    for number in range(count):
        yield _HARMLESS_FORMS[number % len(_HARMLESS_FORMS)](source)
