"""The forms of credentials: exact forms of vendors, forms of files, and credentials in a sentence."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from knowhub.conversations.secrets.names import (
    KEY_KINDS,
    KEY_ZH,
    METHOD,
    ONE_TIME_CODE_ZH,
    PASSWORD,
    PASSWORD_NAME,
    PASSWORD_WORD,
    PASSWORD_ZH,
    list_names,
)

_NOT_INSIDE = r"(?<![A-Za-z0-9_-])"
_ENDS = r"(?![A-Za-z0-9_-])"
_VALUE = r"[!-~]{6,256}"
QUOTE = r"[\"'`“”‘’「]"
_NAME_ENDS = rf"{QUOTE}?\s{{0,8}}"


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """One form of a credential. If none of `hints` occurs in the lower-case text, the expression is not tried.

    The group `secret` is the part to redact. Values that people choose, such as passwords (`is_chosen`), are compared
    with placeholders from manuals; the exact forms of vendors are not. `is_valid` checks a number that has the right
    form, for example by its check digit.
    """

    name: str
    hints: tuple[str, ...]
    expression: re.Pattern[str]
    is_chosen: bool = False
    is_valid: Callable[[str], bool] | None = None


def _make_token(name: str, hints: tuple[str, ...], form: str) -> SecretPattern:
    return SecretPattern(name, hints, re.compile(rf"{_NOT_INSIDE}(?P<secret>{form}){_ENDS}"))


def _make_exact(name: str, hints: tuple[str, ...], form: str) -> SecretPattern:
    return SecretPattern(name, hints, re.compile(form))


def _make_chosen(name: str, hints: tuple[str, ...], form: str) -> SecretPattern:
    return SecretPattern(name, hints, re.compile(form), is_chosen=True)


PRIVATE_KEY = _make_exact(
    "private_key",
    ("private key-----",),
    # Its body has no run of five dashes, so that no text is matched twice. A mention without a body is no secret.
    # A key of 8,192 bits has 6,400 characters.
    r"(?P<secret>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?=[\w\s\\:,.-]{0,200}?[A-Za-z0-9+/]{32})"
    r"(?:[A-Za-z0-9+/=\s\\:,.]|-(?!----)){0,65536}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?)",
)
PATTERNS = (
    PRIVATE_KEY,
    _make_token("aws_access_key_id", ("akia", "asia"), r"(?:AKIA|ASIA)[A-Z0-9]{16}"),
    _make_exact(
        "aws_secret_access_key",
        ("secret_access_key", "secretaccesskey"),
        rf"(?i:secret_?access_?key){_NAME_ENDS}[:=]\s{{0,8}}{QUOTE}?"
        r"(?P<secret>[A-Za-z0-9/+=]{40})(?![A-Za-z0-9/+=])",
    ),
    _make_token("gcp_api_key", ("aiza",), r"AIza[A-Za-z0-9_-]{35}"),
    _make_token("google_oauth_token", ("ya29.",), r"ya29\.[A-Za-z0-9_-]{30,512}"),
    _make_token("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    _make_token("github_fine_grained_token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{60,255}"),
    _make_token("knowhub_key", ("kh_",), r"kh_[0-9a-f]{16}_[A-Za-z0-9_-]{43}"),
    _make_token("gitlab_token", ("glpat-",), r"glpat-[A-Za-z0-9_-]{20,64}"),
    _make_token("slack_token", ("xox",), r"xox[abeoprs]-[A-Za-z0-9-]{20,255}"),
    _make_exact(
        "slack_webhook",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?P<secret>services/T[A-Za-z0-9]{6,16}/B[A-Za-z0-9]{6,16}/[A-Za-z0-9]{18,64})",
    ),
    _make_token("anthropic_key", ("sk-ant-",), r"sk-ant-[A-Za-z0-9_-]{24,255}"),
    _make_token(
        "openai_key", ("sk-",), r"sk-(?:(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{24,255}|[A-Za-z0-9]{32,64})"
    ),
    _make_token("stripe_key", ("k_live_",), r"[rs]k_live_[A-Za-z0-9]{20,255}"),
    _make_token("npm_token", ("npm_",), r"npm_[A-Za-z0-9]{36}"),
    _make_token("pypi_token", ("pypi-",), r"pypi-AgEI[A-Za-z0-9_-]{50,512}"),
    _make_token("huggingface_token", ("hf_",), r"hf_[A-Za-z0-9]{34}"),
    _make_token("aliyun_access_key_id", ("ltai",), r"LTAI[A-Za-z0-9]{16,26}"),
    _make_token("tencent_secret_id", ("akid",), r"AKID[A-Za-z0-9]{32}"),
    _make_token("sendgrid_key", ("sg.",), r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}"),
    _make_token("telegram_bot_token", (":aa",), r"\d{8,10}:AA[A-Za-z0-9_-]{30,40}"),
    _make_token("jwt", ("eyj",), r"eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{16,}+"),
    SecretPattern(
        "connection_string",
        ("://",),
        re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@\"'<>]{0,128}:(?P<secret>[^\s/@\"'<>]{3,256})@[\w\[]"),
        is_valid=lambda value: not PLACEHOLDER.search(value),
    ),
    _make_chosen(
        "authorization_header",
        ("bearer ", "basic ", "token "),
        rf"(?i:authorization){_NAME_ENDS}[:=]\s{{0,8}}{QUOTE}?(?i:bearer|basic|token)\s{{1,4}}"
        r"(?P<secret>[A-Za-z0-9._~+/=-]{16,4096})",
    ),
    _make_chosen(
        "password",
        list_names(PASSWORD),
        # OLDPWD is a folder.
        rf"{PASSWORD_NAME}(?<!(?i:[a-z]pwd)){_NAME_ENDS}(?::|=|：|＝|\bis\b)\s{{0,8}}"
        rf"{QUOTE}?(?P<secret>{_VALUE})",
    ),
    _make_chosen(
        "named_key",
        ("key", "token", "secret"),
        rf"(?i:(?<![a-z])(?:{KEY_KINDS})[_ -]?(?:key|token|secret)|(?<![a-z])(?:secret|token)(?:[_-]?key)?)"
        rf"{_NAME_ENDS}(?::|=|：|＝)\s{{0,8}}"
        rf"{QUOTE}?(?P<secret>[A-Za-z0-9_./+=~-]{{16,256}})",
    ),
    _make_chosen(
        "password_zh",
        list_names(PASSWORD_ZH),
        rf"(?:{PASSWORD_ZH})\s{{0,4}}(?:是|为|為|设为|设置为|改为|[:：=＝]){{1,2}}\s{{0,8}}"
        rf"{QUOTE}?(?P<secret>{_VALUE})",
    ),
    _make_chosen(
        "named_key_zh",
        list_names(KEY_ZH),
        rf"(?:{KEY_ZH})\s{{0,4}}(?:是|为|為|[:：=＝]){{1,2}}\s{{0,8}}"
        rf"{QUOTE}?(?P<secret>[A-Za-z0-9_./+=~-]{{12,256}})",
    ),
)

# Placeholders for a value in manuals, code and schemas.
PLACEHOLDER: re.Pattern[str] = re.compile(
    r"""
    ^[\[({<$%#*{]            # <password>, ${PASSWORD}, %s, ***
    | [<>{}()\[\]$]          # a call, a template, markup
    | \*{3} | x{4} | X{4} | \.{3} | …
    | (?i: ^(?:your|my|some|the|test|dummy|fake|sample|changeme|change_me|placeholder|redacted|masked|hidden) )
    | (?i: example | placeholder )
    | (?i: ^(?:METHOD)\w{0,9}$ )
    | (?i: ^(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|string|null|none|true|false|required|optional)\d{0,3}$ )
    | (?i: ^(?:os|process|env|self|config|settings|request|args|options|ctx|data|params)[.\[] )
    | ^knowledge-\d{8}-[0-9a-f]{4,}$
    | ^https?://
    """.replace("METHOD", METHOD),
    re.VERBOSE,
)


_FIGURE_OR_SIGN = r"(?=[!-~]{0,64}(?:[0-9]|[@#$%^&*+=~!][!-~]))"
_FIGURE_AND_LETTER = r"(?=[!-~]{0,64}[0-9])(?=[!-~]{0,64}[A-Za-z])"
# How long, how often, how wide: no value.
MEASURE = (
    r"(?!\d{1,6}\s{0,2}(?:[-–~到至]\s{0,2}\d{1,6})?[-\s]{0,2}"
    r"(?:位|个|字符|字|天|次|分钟|小时|秒|年|月|周|号|日|行|倍|%|px|rem|em\b|ms\b|s\b|characters?|chars?|days?|weeks?"
    r"|months?|years?|hours?|minutes?|seconds?|times?|letters?|digits?|words?|bits?|bytes?|lines?|users?|attempts?))"
)
# How passwords are kept and made safe is no password.
_NO_METHOD = (
    rf"(?!(?i:{METHOD}|ssl|tls|oauth|jwt|1password|keepass|bitwarden|lastpass|vault|https?:|knowledge-"
    r"|[a-z_]{2,32}\())"
)
_SECRET_ZH = f"(?:{PASSWORD_ZH}|{KEY_ZH}|{ONE_TIME_CODE_ZH})"
_KEY = (
    rf"(?:(?<![a-z])(?:{KEY_KINDS})[_ -]?(?:key|token|secret)"
    r"|(?<![a-z])(?:tokens?|secret(?:[_ -]?key)?)(?![a-z_])|"
    f"{KEY_ZH})"
)
_SAYS = r"(?:is|are|was|to|as|[:：=＝]|是|为|為|用|都|改|换|換|成|统一|就|设|設|使|填)"
_IS = r"\s{0,4}(?:(?:is|are|was|to|as|code|码|碼|是|为|為|用|设为|設為|设置为|改为|改成|换成|[:：=＝])\s{0,4}){0,3}+"
# What is said of a password in words of Chinese, or asked about it: none of them is one.
_ABOUT_ZH = (
    r"(?:[不无没未非可应需须要能会再由以从和或与]|[\u3400-\u9fff]{0,16}?(?:[的吗么何哪谁几请该被把这那其]"
    r"|空(?=$|[，。则时])|功(?=[后了能]|$)"
    r"|什么|多少|怎|是否|必填|选填|必选|为空|空值|错误|正确|有效|无效|过期|失效|默认|缺省|初始|随机|生成|自动"
    r"|手动|加密|解密|明文|密文|哈希|散列|加盐|字符|数字|字母|符号|长度|大小写|拼音|英文|中文|组合|用户|账号"
    r"|帐号|管理员|系统|平台|程序|后台|公司|统一|团队|个人|自己|本人|大家|我们|他们|你们|双方|临时|一次性|永久"
    r"|固定|独立|共用|共享|唯一|设置|配置|修改|更改|重置|找回|联系|咨询|参考|参见|查看|查询|见附件|见下|如下"
    r"|同上|一样|一致|相同|不同|类型|字段|参数|变量|属性|选项|必备|敏感|信息|数据|内容|凭[证据]|登录|登陆|认证"
    r"|验证|校验|鉴权|授权|权限|隐私|机密|保密|安全|重要|关键|核心|基础|基本|问题|方式|方法|方案|机制|手段|工具"
    r"|环境|存[储放在]|保存|保管|管理|传输|发送|记录|记[住在不]|填写|输入|提供|分发|轮换|更新|定期|策略|规则|强度"
    r"|复杂|简单|密码|口令|密钥|令牌|暗号|[一二三四五六七八九十百两]+[位个次]|[最首]后|步骤|环节|目标|产物|历史"
    r"|发明|显示|遮[住盖]|换掉|作废|常用|即焚|动作|操作|行为|命名|格式|写法|风格|界面|页面|组件|文本|邮[件箱]"
    r"|短信|手机|电话|钥匙|指纹|人脸|接口|服务|数据库|第[一二三四]|首[次要先]|一[种道项串条类本部]|必须|需要|应该"
    r"|可以|不能|不得|不要|不会|没有|处理|经过|其他|其它"
    r"))"
)


# Words that may come between a secret's name and its value when somebody speaks: «the password, well, it's hunter2».
PAUSE = r"(?:[\s,:;.…—–，、：-]{1,4})"
SPOKEN = (
    r"(?:(?i:well|u[hm]+|er+m?|hm+|oh|ok(?:ay)?|so|now|right|like|is|was|be|it(?:['’]?s)?|that(?:['’]?s)?|this|the|a|i"
    r"|we|you|think|guess|believe|reckon|know|remember|set|always|still|just|actually|currently|again|should|to|as|my"
    r"|our|same|maybe|probably)\b|[嗯呃额啊哦呀吧呢]|那个|就是|应该|大概|好像|是|我记得|我想想?|还是|现在|目前|来着)"
)
FIGURES = r"\d(?:[ -]?\d){3,15}(?!\d)"


def _has_check_digit(number: str) -> bool:
    """Return whether the figures of a card number agree with its last one (Luhn)."""
    figures = [int(char) for char in number if char.isdigit()][::-1]
    doubled = (figure * 2 for figure in figures[1::2])
    return (sum(figures[::2]) + sum(item - 9 if item > 9 else item for item in doubled)) % 10 == 0  # noqa: PLR2004 -- two figures


SPOKEN_PATTERNS = (
    *(
        _make_exact(
            "password",
            hints,
            rf"(?:{name}){_IS}{QUOTE}?+{_FIGURE_OR_SIGN}{MEASURE}{_NO_METHOD}(?P<secret>[!-~]{{4,256}})",
        )
        for hints, name in (
            (list_names(PASSWORD), rf"{PASSWORD_WORD}[Ss]?(?=[\s:：=＝])"),
            (("pin",), r"P(?<!\w.)IN\b|[Pp](?<!\w.)in(?= ?(?:code|码))"),
            (list_names(PASSWORD_ZH, ONE_TIME_CODE_ZH), f"{PASSWORD_ZH}|{ONE_TIME_CODE_ZH}"),
        )
    ),
    _make_exact(
        "password",
        list_names(PASSWORD_ZH),
        rf"(?:{PASSWORD_ZH})\s{{0,4}}(?:是|为|為|[:：=＝])\s{{0,4}}{QUOTE}?+{MEASURE}"
        r"(?P<secret>(?=[\u3400-\u9fff]{1,32}[!-~]{0,64}\d)[\u3400-\u9fff]{1,32}[!-~]{1,64})",
    ),
    _make_exact(
        # Words of Chinese alone: 密码是芝麻开门, 密码统一用「小桥流水」. They end where the clause does.
        "password",
        (*list_names(PASSWORD_ZH), "答案"),
        # 密码用途, 密码用户 are other words: «used» alone says nothing.
        rf"(?:{PASSWORD_ZH}|(?:安全|密保)问题的?答案)"
        r"(?:(?:统一|統一|[就都也]){1,2}\s{0,4}用"
        r"|(?:统一|統一|必须|一定|现在|目前|[就都也还]){0,2}\s{0,4}(?:是|为|為|叫|用(?=[\s\"“「])|设为|設為|设成|設成|改[为成用]|改為|换成|換成"
        r"|[:：=＝]))"
        rf"\s{{0,4}}[:：]?\s{{0,4}}{QUOTE}?+(?!{_ABOUT_ZH})"
        r"(?P<secret>[\u3400-\u9fff]{3,16}?)(?=[吧呢啊哦了]?(?:[\s\"'”’」』,，.。;；!！、?？)）]|$))",
    ),
    _make_chosen(
        "password",
        ("mysql", "mariadb", "sshpass"),
        r"(?:mysql\w{0,10}|mariadb\w{0,10}|sshpass)\b[^\n]{0,80}?\s-p ?(?P<secret>[^\s-][!-~]{3,255})",
    ),
    _make_chosen(
        "password",
        ("@", "-u", "--user"),
        r"(?:(?<![\w/:.+-])[\w.+-]{1,64}:(?P<secret>[^\s/:@\"'<>，。；]{4,256})(?=@[\w\[]))",
    ),
    _make_chosen(
        "password", ("-u ", "--user"), r"\s(?:-u\s{0,4}|--user[ =])[\w.@+-]{1,64}:(?P<secret>[^\s\"']{4,256})"
    ),
    _make_chosen(
        "cookie",
        ("=",),
        r"(?i:(?<![a-z0-9_-])[a-z_-]{0,64}(?:sess|session|session_?id|sid|auth|token|csrf|cookie|secret))"
        r"=(?P<secret>[^\s;,，。；\"']{6,4096})",
    ),
    _make_exact(
        # 密码统一用 …, 用这个密码登录：…, 密码设成生日 …
        "password",
        list_names(PASSWORD_ZH, KEY_ZH, ONE_TIME_CODE_ZH),
        # Only such characters may come between the cue and the value.
        rf"{_SECRET_ZH}(?=[\u3400-\u9fff\s:：=＝\"'`“”‘’「]{{1,25}}[!-~])[\u3400-\u9fff\s]{{0,12}}?(?:用|是|为|為|成|改|换|換|填|[:：=＝])[\u3400-\u9fff\s:：=]{{0,8}}?"
        rf"{QUOTE}?+(?<![!-~]){_FIGURE_OR_SIGN}{MEASURE}{_NO_METHOD}(?P<secret>[!-~]{{4,256}})",
    ),
    _make_exact(
        # «The password for the mail is …», «the password of the staging db is …»
        "password",
        list_names(PASSWORD),
        rf"{PASSWORD_WORD}[Ss]? (?:for|of|to|on|at|in)(?: [\w'’./@-]{{1,40}}){{1,6}}?"
        rf" ?(?:is|are|was|=|:) {{0,4}}{QUOTE}?+{_FIGURE_OR_SIGN}{MEASURE}{_NO_METHOD}(?P<secret>[!-~]{{4,256}})",
    ),
    _make_exact(
        # «I like … as my password», «the word … as passphrase»
        "password",
        list_names(PASSWORD),
        rf"(?<![!-~])(?:{_FIGURE_OR_SIGN}|(?=[A-Za-z]{{20}})){_NO_METHOD}"
        rf"(?P<secret>{_FIGURE_OR_SIGN}[!-~]{{6,64}}|[A-Za-z]{{20,64}})[\"'”’」]?"
        r" (?i:as|to be) (?i:(?:my|our|the|a|your|his|her|their) )?(?:\w{1,20} ){0,2}?"
        rf"(?i:(?:{PASSWORD})s?)\b(?! (?i:manager|rules?|polic|fields?|hash|reset|prompt))",
    ),
    _make_exact(
        # DB_PASS=…, «pass: …»
        "password",
        ("pass", "pw"),
        r"(?i:(?<![a-z])(?:[a-z0-9]{1,20}_){0,4}(?:pass|pw|pswd))\s?(?:[:=：]|\bis\b)\s{0,4}"
        rf"{QUOTE}?+{MEASURE}{_NO_METHOD}"
        rf"(?![!-~]{{0,64}}[/(]){_FIGURE_AND_LETTER}(?P<secret>[!-~]{{4,256}})",
    ),
    _make_exact(
        # DB_PASS=… of a shell, without a figure too.
        "password",
        ("pass=", "password=", "pwd="),
        r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9_]{0,40}(?:PASS|PASSWORD|PWD)=(?P<secret>[A-Za-z0-9][\w!@#%^*+~-]{3,255})(?![\w(.])",
    ),
    _make_exact(
        "card_number", ("cv",), r"(?i:\bcv[vc]2?)\W{0,3}(?:(?:is|code|number)\W{1,3}){0,2}(?P<secret>\d{3,4})(?!\d)"
    ),
    _make_chosen(
        "named_key",
        ("key", "token", "secret", *list_names(KEY_ZH)),
        rf"(?i:{_KEY}){QUOTE}?\s{{0,4}}(?:{_SAYS}\s{{0,4}}){{0,4}}+{QUOTE}?+"
        rf"{_FIGURE_AND_LETTER}{MEASURE}{_NO_METHOD}"
        # A full stop behind it ends the sentence.
        r"(?P<secret>[A-Za-z0-9_./+=~-]{7,255}[A-Za-z0-9_/+=~-])",
    ),
    _make_exact(
        "login",
        ("credential", "log", "sign", "connect", "账号", "帳號", "用户名", "账密"),
        r"(?:(?:(?i:credentials?|logins?)|账号密码|帳號密碼|用户名密码|账密|账号)\s{0,4}"
        r"(?:(?:are|is|[:：=]|是|为|為|用|都)\s{0,4}){0,3}+"
        r"|(?i:\b(?:log|sign)(?:ging|ing)? ?in|\bconnect)(?: \w{1,20}){0,3}? (?:as|with) )"
        rf"[A-Za-z][\w.@-]{{1,40}}[:/](?P<secret>{_FIGURE_OR_SIGN}[^\s/，。；]{{4,256}})",
    ),
    _make_exact(
        "login",
        ("/", ":"),
        r"(?:用|以|是)\s{0,2}[A-Za-z][A-Za-z0-9_.@-]{1,40}[/:]"
        rf"(?P<secret>{_FIGURE_OR_SIGN}[^\s/:，。；\u3400-\u9fff]{{4,64}})(?=\s?(?:去|来)?登[录陆錄])",
    ),
    *(
        # «The password, well, hunter2», 密码嗯就是 hunter2
        _make_exact(
            "password",
            hints,
            rf"(?:{name})(?:{PAUSE}?{SPOKEN}){{0,6}}{PAUSE}?{QUOTE}?(?=[!-~]{{0,64}}\d){MEASURE}{_NO_METHOD}"
            rf"(?P<secret>(?<![!-~])(?:{_FIGURE_AND_LETTER}[!-~]{{5,256}}|{FIGURES}))",
        )
        for hints, name in (
            (list_names(PASSWORD), rf"{PASSWORD_WORD}\b"),
            (
                (*list_names(PASSWORD_ZH, ONE_TIME_CODE_ZH), "禁码", "门码", "锁码"),
                rf"{PASSWORD_ZH}|{ONE_TIME_CODE_ZH}|门禁码|开门码|[开解]锁码",
            ),
        )
    ),
    _make_exact(
        "totp_seed",
        ("2fa", "totp", "otp", "mfa", "authenticator", "seed", "两步", "二次验证", "双因素"),
        r"(?:(?i:\b2fa|totp|\botp|\bmfa|authenticator|\bseed)|两步验证|二次验证|双因素)[^\n]{0,30}?(?<![A-Za-z0-9])"
        r"(?P<secret>[A-Z2-7]{16,64})(?![A-Za-z0-9])",
    ),
    _make_exact(
        "recovery_phrase",
        ("phrase", "words", "mnemonic", "助记词", "恢复"),
        r"(?:(?i:\b(?:recovery|seed|mnemonic|backup|wallet)[ -](?:phrase|words?|key)"
        r"|\bmnemonic)|助记词|恢复(?:短语|词))"
        rf"\s{{0,4}}(?:(?:is|are|是|为|[:：=])\s{{0,4}}){{1,2}}+{QUOTE}?+"
        r"(?P<secret>[a-z]{3,8}(?:[ ,]{1,2}[a-z]{3,8}){10,23})",
    ),
    SecretPattern(
        "card_number",
        ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"),
        re.compile(
            r"(?<![\d.-])(?P<secret>(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6011|65\d\d|62\d\d"
            r"|3[47]\d\d)(?:[ -]?\d){9,15})(?![\d-])"
        ),
        is_valid=_has_check_digit,
    ),
    _make_exact(
        "card_number",
        ("card", "卡"),
        r"(?:(?i:\bcard)|银行卡|信用卡|储蓄卡|卡号)[^\n\d]{0,16}(?P<secret>\d(?:[ -]?\d){12,18})(?!\d)",
    ),
    _make_exact("id_number", ("-",), r"(?<![\d-])(?P<secret>(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4})(?![\d-])"),
    _make_exact(
        "id_number",
        ("19", "20"),
        r"(?<!\d)(?P<secret>[1-9]\d{5}(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d"
        r"|3[01])\d{3}[\dXx])(?![\dA-Za-z])",
    ),
)
