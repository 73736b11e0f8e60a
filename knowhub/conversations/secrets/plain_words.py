"""Secrets in plain words, «the password is sunflower»: a name, a verb or sign, and a value that may be any word."""

import re
from typing import Final

from knowhub.conversations.secrets.names import ONE_TIME_CODE_ZH, PASSWORD_REST, PASSWORD_ZH, list_names
from knowhub.conversations.secrets.patterns import FIGURES, MEASURE, PAUSE, PLACEHOLDER, QUOTE, SPOKEN, SecretPattern

# By what the text must have. `re` skips quickly to a set of first letters, and slowly to a choice of words.
_PASSWORD_NAMES: Final = (
    (
        ("pass", "pw"),
        rf"[Pp](?>(?i:(?<!1p)(?:{PASSWORD_REST})|ass code|(?<![a-z]p)(?:ass|w)(?=\s?[:=]\s?[\"'a-z])))",
    ),
    (
        ("fi key", "fi pass", "code word", "codeword", "keyword", "security answer", "security code"),
        (
            r"[CKSWcksw](?>(?<=[Ww])(?i:i-?fi (?:key|pass))|(?:(?<=[Ss])(?i:ecurity (?:answer|code))"
            r"|(?<=[Cc])(?i:ode ?word)|(?<=[Kk])(?i:eyword))(?= for ))"
        ),
    ),
)
# «… for the router», «… they sent me»
_WHICH: Final = r"(?: (?:for|of|to|on|at|in|from|they|that|we|you|I)(?: [\w'’./@-]{1,40}){1,6}?| here)?"
_SIGN: Final = r"(?:[\"'”’]?[ \t]?(?:[:=：＝→]|[-=]>|-(?=\s))[ \t]{0,4}|[\"'] value=)"
_IS: Final = (
    r"(?:,[^,.\n]{1,24},(?= is )| hint)?(?: (?:is|was|being|will be|should be|has been|got|has(?= changed ))|['’]s"
    r"|(?= (?:set|changed) to ))"
    r"(?: (?:now|still|just|always|currently|simply|set|changed|reset|updated)){0,3}(?: to)? "
)
_WORD: Final = r"[A-Za-z0-9][^\s.,:;，。；!?()\"'“”‘’「」<>{}\[\]&=*$|\\/`…\u3400-\u9fff]{2,39}"
_WORDS: Final = r"[A-Za-z]{2,20}(?:[ -][A-Za-z]{2,20})"
# The clause ends behind the value.
_END: Final = (
    r"(?=[\"'”’]?(?:[.,;!?。，；)]{0,3}(?:\s{0,3}\Z|[ \t]{0,3}\n|\s[-–—(])|[.,;!?)]{1,3}\s|[&<]"
    r"| (?:for|on|in|at|and|but|from|since|until|today|now|yesterday|everywhere|again|by|please|if|so|or|because|too"
    r"|with|btw|right|starting|I|not|this)\b))"
)
_OPENS, _CLOSES = "[\"'“‘「]", "[\"'”’」]"
_DIGIT: Final = r"(?:(?i:zero|oh|one|two|three|four|five|six|seven|eight|nine|double|triple|star|hash|pound)\b|\d)"
_DASHED: Final = r"(?=[^\s-]{0,7}[A-Z\d])[A-Za-z0-9]{4,8}(?:-[A-Za-z0-9]{4,8}){1,4}"
_CODE: Final = (
    r"(?:[#*]?(?:(?=[A-Za-z]{0,7}\d)[A-Za-z0-9]{4,12}|\d(?:[ -]?\d){3,15}"
    rf"|{_DASHED}|[a-z]{{5}}-[a-z]{{5}})[#*]?(?![\w-])|{_DIGIT}(?:[ ,-]{{1,2}}{_DIGIT}){{3,11}}"
    r"|(?:(?:left|right)(?: to)? \d{1,2}[ ,]{1,2}){1,5}(?:left|right)(?: to)? \d{1,2})"
)
_LOCK: Final = (
    r"(?:door|gate|alarm|safe|vault|lock|locker|padlock|garage|house|building|lobby|bike|key ?box|lock ?box|suitcase"
    r"|luggage|phone|card|sim|access|security|entry|unlock|keypad|voicemail|backup|recovery|verification|one-?time"
    r"|2fa|otp)"
)
_CODE_NAME: Final = (
    rf"(?i:\b{_LOCK}(?:['’]s)?(?: \w{{1,20}})? codes?|\bcode (?:of|for|to|on)(?: [\w'’-]{{1,20}}){{0,3}}? {_LOCK}"
    r"|pass ?codes?|(?<![a-z])pin(?: codes?| number)?|combination|combo)"
)
_BULLET: Final = r"(?:\n?[ \t]{0,8}(?:[-*•]|\d{1,2}[.、)](?=\s))?\s?)"
_NAME_ZH: Final = f"(?:{PASSWORD_ZH}|安全码|提取码)"
_CODE_NAME_ZH: Final = (
    rf"(?:密码|密碼|(?<![A-Za-z])(?:PIN|pin)码?(?![A-Za-z])|门禁码?|門禁|[门锁箱安全]码|{ONE_TIME_CODE_ZH}"
    r"|(?:恢复|备份|备用)代?码)"
)
_IS_ZH: Final = (
    r"(?:[\"”]?\s?(?:(?:没|不|沒)[变改變][，,]\s?)?(?:我?(?:[设改用]的)?(?:统一|[就还都也])?(?:是|为|為|有|设[为成的]|设置[为成]?成?|改[为成]|换成|叫)"
    r"|[:：=＝→，,])了?[ \t]{0,3})"
)
_CODE_ZH: Final = (
    r"(?:(?:井号?|星号?|[#*])?\d(?:[ -]?\d){2,15}(?:井号?键?|星号?键?|[#*])?(?! ?[\d:：.年月日点位个次天秒分-])"
    r"|[零一二三四五六七八九〇两幺]{4,12}(?![位个次年月天条])"
    r"|(?:[左右][转拧到]?\s?[\d一二三四五六七八九十]{1,3}圈?[，, 再然后到]{0,3}){2,6}"
    rf"|{_DASHED})"
)

_END_ZH: Final = r"(?=[\s,，。；、！!?？)）;\u3400-\u9fff]|\.(?!\S)|\Z)"
_NEW: Final = rf" (?P<secret>{_WORD}{_END}|{_WORDS}{{2,9}}(?=[.!,;]|\n|\Z))"


def _list_forms(name: str) -> tuple[str, ...]:
    """Return the forms in which a secret stands beside this name of it."""
    return (
        (
            rf"{name}(?:['’]s)?{_WHICH}(?:{_SIGN}|{_IS}| ){_OPENS}"
            rf"(?P<secret>[^\s\"'”’」),:;+][^\"'”’」\n]{{2,63}}){_CLOSES}"
        ),
        rf"{name}{_IS_ZH}?{_OPENS}(?P<secret>[A-Za-z0-9][ -~]{{2,63}}?){_CLOSES}",
        rf"{name}{_WHICH}(?:{_SIGN}|{_IS})(?P<secret>{_WORD}){_END}",
        # Several words: three or more behind «is».
        rf"{name}{_WHICH}(?:{_SIGN}|{_IS}(?=\S{{2,20}} \S{{2,20}}[ -]))(?P<secret>{_WORDS}{{1,9}})(?=[.!,;]|\s*\n|\Z)",
        # «I changed the password to …»
        (
            r"(?i:\b(?:chang(?:e|ed|ing)|set|reset|updated?|made|switched))(?: [\w'’-]{1,20}){1,4}? "
            rf"{name}{_WHICH} to{_NEW}"
        ),
        # «I use … as my password»
        (
            r"(?i:\b(?:use|used|using|type|typed|enter|put|have|set|chose|pick|picked|try|took))"
            rf" {_OPENS}?(?P<secret>{_WORD}){_CLOSES}? (?:as|for)(?: (?:my|our|the|an?|your|his|her))?(?: \w{{1,20}})?"
            rf" {name}{_END}"
        ),
        rf"{name}\s?[是为]\s?(?P<secret>(?!\d){_WORD}){_END_ZH}",
    )


_OTHER_FORMS: Final = (
    rf"[Ii](?i:dentified by ){_OPENS}(?P<secret>[^\s\"'”’」),:;+][^\"'”’」\n]{{2,63}}){_CLOSES}",
    rf"{_NAME_ZH}{_IS_ZH}?{_OPENS}(?P<secret>[A-Za-z0-9][ -~]{{2,63}}?){_CLOSES}",
    # «log in with the password …», «user ann pass …»
    (
        r"(?:(?i:\b(?:with|use|using|try|enter|type|on|by)(?: the| this)? pass(?:word|phrase)"
        rf"|\b(?:user(?:name)?|network|login|account) \S{{1,40}},? (?:and )?pass(?:word)?)){_NEW}"
    ),
    (
        r"(?:(?:[?&;]|--)(?i:password|passwd|pwd)=|sshpass -p |\bcurl [^\n]{0,80}?-u ?[\w.@+-]{1,64}:)"
        r"(?P<secret>[^\s&;\"'<>(){}\[\]$,]{3,64})"
    ),
    rf"{_NAME_ZH}{_IS_ZH}(?P<secret>(?!\d){_WORD}){_END_ZH}",
    rf"{_NAME_ZH}\s?(?P<secret>(?!\d){_WORD})(?=[，。；、！;,\n]|\Z)",
    (
        r"[用把拿]\s?(?P<secret>[A-Za-z0-9][!-~]{2,63}?)[\"”]?\s?(?:作[为為]|[当當][作成]?|[做作])(?:[我你他她它]们?的)?"
        rf"[\u3400-\u9fff]{{0,4}}(?:{PASSWORD_ZH})(?![\u3400-\u9fff])"
    ),
)
_CODE_FORMS: Final = (
    (
        rf"{_CODE_NAME}(?:{_WHICH}(?:{_SIGN}|{_IS}(?:from )?| are | from (?=\\d)){_BULLET}"
        rf"|(?:['’]s|\?)?(?:{PAUSE}{SPOKEN}){{0,6}}{PAUSE}{MEASURE}(?={FIGURES})){QUOTE}?{MEASURE}"
        rf"(?P<secret>{_CODE}(?:(?:,? and |,? to |[,;] ?|[,;]?{_BULLET}){_CODE}){{0,20}})"
    ),
    rf"{_CODE_NAME_ZH}(?:{_IS_ZH}|\s?){_BULLET}(?P<secret>{_CODE_ZH}(?:[、，,和]?{_BULLET}{_CODE_ZH}){{0,20}})",
)
# Words that describe a password, and are none: «the password is required».
_ABOUT_WORDS: Final = """
the and not for but its this that what whatever something anything nothing everything someone none which who where when
here there they you she his her our your from with without into only also very too still always never now again already
yet just probably currently perhaps really quite pretty super about above below under over after before between because
must should can cannot could will would may might has had have does did are was were been being get gets see ask use
check contact please enter type try add make keep same different easy hard simple complex long short strong weak safe
secure insecure private public correct incorrect right wrong valid invalid good bad better worse okay fine great nice
ugly new old empty blank missing optional mandatory random unique plain text str int bool nil false yes number object
varchar any default unknown unset set gone lost kept sent meant hidden shown known given written broken stolen
forgotten taken chosen found made left stuck due part case sensitive static dynamic permanent temporary pending ready
stupid important necessary enough active manager prompt field protection hint reset policy hash length strength rules
page screen form column input value file files list login account accounts user users name expire change changes expiry
vault minimum maximum least most characters digits letters words format continue proceed email mail phone
authentication sso oauth bcrypt argon2 md5 sha1 sha256 bitwarden keepass lastpass biometrics fingerprint in no is as at
on by of or to we he it my me if so do one two three four five six eight ten longer shorter stronger weaker older newer
difficult common numeric alphanumeric undefined boolean hashes rule admins logins maybe than managers upon
"""
_ABOUT: Final = frozenset(_ABOUT_WORDS.split())
_DESCRIBES: Final = re.compile(r"(?i:(?:ed|ing|able|ible|less|ous|ive)\Z)|\A[A-Z]{2,5}\Z")
# Without a figure: the name of a variable, or a sentence.
_NAMES: Final = re.compile(r"(?i:\A(?=\D*\Z).*?(?:passw|passphrase|passcode|pwd|_))")


def _may_be_chosen(value: str) -> bool:
    """Return whether this may be a password: neither a placeholder nor a description of one."""
    words = value.replace(" the ", " ").split()
    about = sum(word.lower() in _ABOUT for word in words)
    return not (about * 3 >= len(words) or PLACEHOLDER.search(value.removeprefix("the ")) or _NAMES.search(value)) and (
        _DESCRIBES.search(words[-1]) is None
    )


_OTHER_HINTS: Final = ("pass", "pwd", "curl", "identified", "全码", "取码", *list_names(PASSWORD_ZH))
_CODE_HINTS: Final = ("code", "pin", "combination", "combo", "码", "碼", "门禁", "門禁")
PLAIN_PATTERNS: Final = (
    *(
        SecretPattern("password", hints, re.compile(form), is_valid=_may_be_chosen)
        for hints, name in _PASSWORD_NAMES
        for form in _list_forms(name)
    ),
    *(SecretPattern("password", _OTHER_HINTS, re.compile(form), is_valid=_may_be_chosen) for form in _OTHER_FORMS),
    *(SecretPattern("pin", _CODE_HINTS, re.compile(form)) for form in _CODE_FORMS),
)
