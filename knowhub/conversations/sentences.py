"""Split a message into the sentences of its author: without code, quotations, data and KnowHub's own texts."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from knowhub.conversations import patterns, recalled
from knowhub.conversations.messages import Message

_HAN = re.compile(r"[\u4e00-\u9fff]")

Fold: TypeAlias = Callable[[str], str]
"""Maps variants of a character to one, such as traditional to simplified Chinese."""

READ_CHARS = 16_384
MAX_SENTENCE_CHARS = 400
MASK = "▪"
_SHORT_QUOTE_CHARS = 16

_FENCE = re.compile(r"^\s*(?:```|~~~)")
_INLINE_CODE = re.compile(r"`([^`\n]{1,60})`")
# Lines that begin like data, code, a log or a quotation.
_NOT_SPOKEN = re.compile(
    r"""^(?:
      \s*[>|]                                          # a quotation, a table
    | \s{4,}\S | \t                                    # indented code
    | \s*(?:[\[{}\]<]|//|/\*|\#include|\#!|\$\s|>>>|@\w+[(\n])
    | \s*"[^"]{1,60}"\s*:                              # JSON
    | \s*(?:Traceback|File\s"|at\s\w+[.(]|import\s\w+$|from\s\S+\simport|def\s\w+\(|class\s\w+[:(]|return\b|SELECT\s)
    | \s*\[?\d{4}-\d\d-\d\d[T\s]\d\d:\d\d              # a log
    | \s*[A-Za-z_]\w*(?:\.\w+)*\s?=[^=]                # an assignment
    | \s*(?:https?://\S+\s*$)
    | \s*(?:\w+(?:Error|Exception)):
    )""",
    re.VERBOSE,
)
# A quotation cannot contain its opening mark, so a run of marks is read in linear time.
_QUOTED = re.compile(
    r"[“”„][^“”„\n]*[“”]|「[^「」\n]*」|『[^『』\n]*』|\"\"\"[^\n]*?\"\"\"|[\"＂][^\"＂\n]*[\"＂]|‘[^‘’\n]{4,}’"
    r"|(?<![\w'])'[^'\n]{4,}'(?!\w)"
    r"|《[^《》\n]*》|«[^«»\n]*»"
)
# A quoted name contains none of these.
_SAYS_SOMETHING = re.compile(r"[，。,.!！?？]|我|必须|不得|\b(?:i|must|always|never)\b", re.IGNORECASE)
_END = re.compile(r"(?<=[。！？!?])(?![”」』\"'’)）])|(?<=\.)(?=\s+[\"“A-Z(\u4e00-\u9fff])")
_BULLET = re.compile(r"^\s*(?:\*(?=\s)|[-+•·]|\d{1,2}[.)、．]|[（(]\d{1,2}[)）]|\#{1,6}(?=\s))\s*")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*\n]{1,400}?)(?<=\S)\1(?![\w*])")
# Characters that look like ASCII letters, spaces and apostrophes.
_LOOKS = (
    {code: code - 0xFEE0 for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))}
    | dict.fromkeys((0x00A0, 0x3000, 0x202F, 0x205F, *range(0x2000, 0x200B)), " ")
    | dict.fromkeys(map(ord, "‘’ʼ＇"), "'")
)
_UNSEEN = dict.fromkeys((0x00AD, 0x180E, *range(0x200B, 0x2010), 0x2060, 0xFEFF))


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, word for word and normalised.

    In `bare`, quotations are masked, letters are lower case, and variants of spaces, apostrophes, letters and Chinese
    characters are the same.
    """

    text: str
    bare: str
    is_first: bool


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """A message with the sentences of its author."""

    message: Message
    said: Sequence[Sentence]


def parse_messages(messages: Sequence[Message], fold: Fold = str) -> list[ParsedMessage]:
    """Split every message into sentences."""
    return [
        ParsedMessage(message, () if message.is_tool else split_sentences(message.content, fold))
        for message in messages
    ]


def split_sentences(content: str, fold: Fold = str) -> list[Sentence]:
    """Return the sentences of the first 16,384 characters. Longer ones than 400 characters are data, and left out."""
    text = content[:READ_CHARS]
    understood = fold(text.translate(_LOOKS)).lower()
    if is_email(understood):
        return []
    # A letter with a longer lower case (İ) shifts all positions; then nothing is cut.
    material = MATERIAL.search(understood) if len(understood) == len(text) else None
    if material is not None:
        text = text[: material.end()]
    said: list[Sentence] = []
    for line in _iter_user_lines(text):
        for part in _END.split(_EMPHASIS.sub(r"\2", _INLINE_CODE.sub(r"\1", line))):
            item = part.strip()
            if item and len(item) <= MAX_SENTENCE_CHARS:
                said.append(Sentence(item, _normalize(item, fold), is_first=not said))
    # The author asks not to remember this message.
    return [] if any(patterns.PRIVATE_ALL.search(sentence.bare) for sentence in said) else said


def mask_quoted(text: str) -> str:
    """Return a text of the same length with masked quotations. A short quotation is a name («dark mode») and stays."""
    return _QUOTED.sub(lambda quote: quote[0] if _is_name(quote[0]) else MASK * len(quote[0]), text)


def iter_plain_lines(content: str) -> Iterator[str]:
    """Yield the lines of a message that are neither code nor KnowHub's own text."""
    fenced = False
    for line in recalled.without_recalled(content).splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield line


def _iter_user_lines(text: str) -> Iterator[str]:
    lines = list(iter_plain_lines(text))
    for line, is_others in zip(lines, mark_other_lines(lines), strict=True):
        if line.strip() and not is_others and not _NOT_SPOKEN.match(line):
            yield _BULLET.sub("", line)


def _normalize(said: str, fold: Fold) -> str:
    return fold(mask_quoted(said).translate(_LOOKS)).translate(_UNSEEN).lower()


def _is_name(quoted: str) -> bool:
    inner = quoted.strip("“”„\"＂「」『』‘’'《》«»")
    return len(inner) <= _SHORT_QUOTE_CHARS and not _SAYS_SOMETHING.search(inner)


_MATERIAL_EN: Final = (
    r"(?:e-?mails?|mails?|letters?|messages?|posts?|articles?|reviews?|transcripts?|conversations?|chats?|logs?"
    r"|stor(?:y|ies)"
    r"|novels?|quotes?|documents?|tickets?|feedback|comments?|passages?|paragraphs?|essays?|poems?|lyrics|scripts?"
    r"|texts?"
    r"|notes?|biograph(?:y|ies)|bios?|cvs?|resumes?|profiles?|statements?)"
)
_MATERIAL_ZH: Final = (
    r"(?:邮件|来信|信件|信|消息|聊天记录|对话|文章|段落|小说|故事|歌词|台词|帖子|评论|反馈|工单|原文|文本|文字|留言|记录"
    r"|简历|自我介绍|作文|日记|剧本|段话|话)"
)
# The text that follows is material to work on, the words of somebody else, or a role to play.
MATERIAL: Final = re.compile(
    r"(?:翻译|译成|译为|改写|润色|总结|概括|校对|解释|分析|translate|rewrite|proofread|paraphrase|summari[sz]e|explain"
    r"|analy[sz]e|correct(?!ions?\b)|classify)[^。.!！?？\n:：]{0,60}[:：]"
    r"|\b(?:(?:here(?:'s| is| are)|this is|below is)(?! my\b)|the following|i (?:just )?(?:got|received)"
    r"|(?:reply|respond|answer) to (?:this|that|the))\b"
    rf"[^.!?\n:]{{0,60}}\b{_MATERIAL_EN}\b[^.!?\n:]{{0,40}}:"
    r"|(?:(?:这是|下面是|以下是)(?!我的)|收到(?:了)?|转发|(?:帮我|请|麻烦)?(?:回复|回|看|读|处理)(?:一下)?(?:这|下面|以下))"
    rf"[^。！？\n：:]{{0,30}}{_MATERIAL_ZH}[^。！？\n：:]{{0,20}}[：:]"
    r"|(?:^|[.!?。！？\n])[^\S\n]*(?:role-?play\b|let's role-?play|(?:请|现在|接下来)*你(?:来|现在)?扮演"
    r"|角色扮演|我们来(?:扮演|玩))"
    r"|^\s*(?:from|subject|发件人|主题)[:：]\s*\S|(?:^|\n)dear [^\n,:]{1,40}[,:]\s*\n|(?:^|\n)尊敬的[^\n：:]{1,20}[：:]"
)
# A message with a greeting and a signature is a pasted mail.
_GREETING: Final = re.compile(r"(?:^|\n)(?:hi|hello|hey)\b[^\n]{0,40},\s*\n")
_SIGNED: Final = re.compile(
    r"\n[^\S\n]*(?:best|kind regards|best regards|regards|sincerely|yours|cheers)"
    r"(?:,[^\n]{0,30}|,?\s*\n[^\n]{1,40})\s*$"
)
_TURN: Final = re.compile(
    r"^\s*(?:\[[^\]\n]{1,20}\]\s*)?(?P<who>[^\W\d_][\w .'-]{0,24}?)\s?(?:[（(][^）)\n]{1,20}[）)])?[:：]\s*"
    r"(?P<said>\S.*)$"
)
_ASSISTANTS: Final = frozenset(
    ("assistant", "ai", "claude", "chatgpt", "gpt", "bot", "gemini", "copilot", "助手", "机器人", "客服")
)
# Labels of the user.
_OWN: Final = frozenset(("me", "i", "user", "human", "myself", "我", "用户", "本人"))
# An English name is a capitalised word. A Chinese name begins with a family name or a title.
_NAME_EN: Final = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z'-]+)?|[A-Z]")
_NAME_ZH: Final = re.compile(
    r"[小老阿大]?[赵钱孙李周吴郑王冯陈褚卫蒋沈韩杨朱秦许何吕张孔曹严华金魏陶姜谢邹苏潘葛范彭鲁韦马方袁柳唐薛雷贺倪汤罗郝"
    r"安于傅齐康伍余顾孟黄穆萧尹姚邵汪毛戴宋熊纪舒屈项祝董梁杜阮蓝闵贾江童颜郭梅林刁钟徐邱骆高夏蔡田樊胡凌霍虞万柯管"
    r"卢莫丁邓崔龚程陆段侯宁甘武刘景龙叶白][\u4e00-\u9fff]{0,2}|[小老阿][\u4e00-\u9fff]{1,2}"
    r"|(?:客户|老板|同事|领导|经理|老师|朋友|对方|主持人|记者|医生|病人|顾客|男|女|甲|乙|丙|丁|妈妈|爸爸|老婆|老公|学生"
    r"|面试官|候选人|旁白)[\u4e00-\u9fff]{0,2}|[\u4e00-\u9fff]{1,3}(?:总|老师|经理|医生|先生|女士|小姐|同学)"
)
_SPEAKS: Final = re.compile(
    r"(?i:(?:ok|okay|yes|no|well|hi|hello|so|and|but)?,? ?(?:i|we|my|our|me|always|never|please|don['’]t"
    r"|from now on)\b)"
    r"|(?:[^，。]{0,4}[我咱]|请|請|以后|以後|不要|别|別)"
)
# Labels of the user that look like names.
_HEADS_WORDS: Final = (
    "note notes fyi ps reminder update edit preference preferences rule rules requirement requirements"
    " constraint constraints budget deadline deadlines remember important context background also summary"
    " correction style language format tone output answer answers goal task tasks backend frontend database"
    " infra infrastructure stack tests test testing ci deployment deploy tools tooling editor team company"
    " project environment setup location timezone role job name habit habits personal general details info tip"
    " warning caution question request please first second third finally next then so ok okay yes no well"
    " anyway btw tldr disclaimer profile about code comments naming security performance versions workflow"
    " process conclusion outcome result lesson lessons wrong right incorrect correct actually true false"
    " takeaway root cause plan steps issue problem fix solution reason example facts fact hobbies diet food"
    " work health allergies allergy family pets coding communication policy decision convention conventions"
    " server client web mobile docs documentation design release production staging hosting stop always never"
    " hardware software"
    " python java rust go javascript typescript react docker git linux windows mac vim sql kubernetes node shell"
)
_HEADS: Final = frozenset(_HEADS_WORDS.split())


def is_email(matched: str) -> bool:
    """Return whether a lower-case text has a greeting and a signature, like a mail."""
    return _GREETING.match(matched) is not None and _SIGNED.search(matched) is not None


def mark_other_lines(lines: Sequence[str]) -> list[bool]:
    """Return for each line whether somebody else says it («Alice: I prefer tabs»), up to the next blank line.

    If anybody but the user speaks, the text is a pasted log, and lines after «User:» or «我：» count as pasted, too.
    """
    speakers = [_parse_author(line) for line in lines]
    log = any(who is not None and who not in _OWN for who in speakers)
    marks: list[bool] = []
    inside = False
    for line, who in zip(lines, speakers, strict=True):
        if not line.strip():
            inside = False
        elif who is not None:
            inside = log
        marks.append(inside)
    return marks


def _parse_author(line: str) -> str | None:
    turn = _TURN.match(line)
    if turn is None:
        return None
    who = turn["who"].strip()
    lower = who.lower()
    if lower in _ASSISTANTS or lower in _OWN:
        return lower
    is_name = _NAME_EN.fullmatch(who) if who.isascii() else _NAME_ZH.fullmatch(who)
    # «Backend» in «Backend: we use Go» is a topic, not a name.
    speaks = is_name and _HEADS.isdisjoint(lower.split()) and _SPEAKS.match(turn["said"])
    return lower if speaks else None


def is_chinese(text: str) -> bool:
    """Return whether at least a fifth of a text is Chinese; it is then answered in Chinese."""
    return len(_HAN.findall(text)) * 5 >= len(text.replace(" ", ""))
