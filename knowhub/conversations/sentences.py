"""Split a message into the sentences of its author: without code, quotations, data and pasted material."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from knowhub.conversations import recalled
from knowhub.conversations.language.sentence_ends import COMMA, SENTENCE_END, iter_sentences
from knowhub.conversations.messages import MAX_MESSAGE_READ_CHARS

Fold: TypeAlias = Callable[[str], str]
"""Maps variants of a character to one, such as traditional to simplified Chinese."""

MAX_SENTENCE_CHARS: Final = 400
MASK: Final = "▪"
_SHORT_QUOTE_CHARS: Final = 16
# Of «please», 谢谢 and the like.
_SHORT_REST_CHARS: Final = 8

_HAN: Final = re.compile(r"[\u4e00-\u9fff]")
_FENCE: Final = re.compile(r"^\s*(?:```|~~~)")
_INLINE_CODE: Final = re.compile(r"`([^`\n]{1,60})`")
# Lines that begin like data, code, a log or a quotation.
_NOT_SPOKEN: Final = re.compile(
    r"""^(?:
      \s*[>|]                                          # a quotation, a table
    | \s{4,}\S | \t                                    # indented code
    | \s*(?:[{}\]<]|\[(?!\d\d?:\d\d)|//|/\*|\#include|\#!|\$\s|>>>|@\w+[(\n])
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
_QUOTED: Final = re.compile(
    r"[“”„][^“”„\n]*[“”]|「[^「」\n]*」|『[^『』\n]*』|[\"＂][^\"＂\n]*[\"＂]|‘[^‘’\n]{4,}’"
    r"|(?<![\w'])'[^'\n]{4,}'(?!\w)|《[^《》\n]*》|«[^«»\n]*»"
)
# A quoted name contains none of these.
_SAYS_SOMETHING: Final = re.compile(r"[，。,.!！?？]|我|\bi\b", re.IGNORECASE)
# A full stop behind one of these, or behind a single letter or a figure, ends no sentence.
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(])(?:dr|mr|mrs|ms|st|prof|jr|sr|rev|gen|capt|vs|etc|approx|incl|excl|no|inc|ltd|co|corp|dept|fig|vol"
    r"|ave|mt"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|e\.g|i\.e|a\.m|p\.m|u\.s|\w|\d{1,2})$",
    re.IGNORECASE,
)
# A figure ends one behind a word, if a capital follows that begins no month («on Dec 3. Lunch is …»), unless figures
# number what follows.
_LAST_FIGURE: Final = re.compile(r"[^\W\d_] \d{1,2}$")
_NEW_WORD: Final = re.compile(
    r"\s{1,3}(?!(?:Jan|Feb|Mar|M[aä]r|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])(?:[a-z]{2,7})?\b)[A-Z]"
)
_NUMBERED: Final = re.compile(r"(?:^|[:;(] ?)1\. ")
_BULLET: Final = re.compile(r"^\s*(?:\*(?=\s)|[-+•·]|\d{1,2}[.)、．](?!\d)|[（(]\d{1,2}[)）]|\#{1,6}(?=\s))\s*")
_CLOCK: Final = re.compile(r"^\s*\[\d{1,2}:\d\d(?::\d\d)?\]\s*")
# A name before a colon, as transcripts have it: «Ada Lovelace: », «小王：».
_SPEAKER: Final = re.compile(
    r"^\s*(?P<name>[A-Z][\w'-]{0,24}(?: [A-Z][\w'-]{0,24})?(?=: )|[\u4e00-\u9fff]{1,4}(?=[：:]))[：:]\s*(?=\S)"
)
# Words before a colon that are no names.
_LABEL_WORDS: Final = (
    "note notes fyi ps reminder update edit rule rules remember important context background summary correction task"
    " warning question request please problem fix example 注意 备注 提醒 记住 规则 补充 更正 问题 任务 说明 例如"
)
_LABELS: Final = frozenset(_LABEL_WORDS.split())
# What follows is material to work on, or the words of somebody else.
_MATERIAL: Final = re.compile(
    r"(?:翻译|译成|改写|润色|总结|概括|校对|解释|分析|回复|translate|rewrite|proofread|paraphrase|summari[sz]e|explain"
    r"|analy[sz]e|classify|reply to|respond to)[^。.!！?？\n:：]{0,60}[:：]"
    r"|\b(?:mail|e-?mail|letter|message|ticket|review|article|text|transcript|chat|post|comment|story"
    r"|song|lyric|motto|saying|proverb|slogan|quote|screenplay|novel|poem|essay)s?\b"
    r"[^.!?\n:：]{0,20}:(?=\s)|(?:邮件|来信|消息|聊天记录|文章|小说|帖子|评论|原文|文本|留言|工单|歌词|台词|剧本|作文|课文|格言|口号|标语)[^。！？\n：:]{0,12}[：:]"
    r"|^\s*(?:from|subject|发件人|主题)[:：]\s*\S|(?:^|\n)dear [^\n,:]{1,40}[,:]\s*\n|(?:^|\n)尊敬的[^\n：:]{1,20}[：:]"
    r"|\bhere(?:'s| is| are) (?:the|my|a|an|our|this|his|her|their|some) [^.!?\n:]{1,40}:|这是[^。！？\n：:]{1,12}[：:]"
    r"|\b(?:ignore|disregard) (?:all |any |the |my |your ){0,3}(?:previous|prior|above|earlier) |忽略(?:之前|以上|前面)"
    r"|\b(?:asking|writing|speaking|answering) (?:for|as|on behalf of) [^.!?\n:]{1,30}:"
    r"|回[一他她个][^。！？\n：:]{0,6}[：:]|\brole[- ]?play\b|你(?:来|现在)?扮演|角色扮演"
)
_SIGNED: Final = re.compile(r"\n[^\S\n]*(?:(?:best|kind) regards|regards|sincerely|yours|cheers)\b[^\n]{0,30}\s")
# Text that the author wants written, translated or corrected: «Polish this bio: …», 写一首诗，第一句是：…. A note or a
# reminder is none.
_REQUESTED: Final = re.compile(
    r"(?:^|[.!?\n;,]\s{0,3}|\b(?:please|now|then|and|help me|(?:can|could|would|will) you|you to) )"
    r"(?:(?:write|draft|compose|continue|create|generate|invent|make|turn|convert|fix|correct|check|edit|improve|revise)"
    r"(?: me| us| out| up)? (?:an?|the|this|that|it|my|our|his|her|their|some|one|another|these)\b"
    r"|(?:polish|rephrase|reword|rewrite|proofread|shorten|translate)\b)"
    r"(?![^.!?\n:：]{0,60}\b(?:down|notes?|reminders?|memory|memories|rules?|entry|sure)\b)[^.!?\n:：]{0,60}[:：]"
    r"|(?:^|[。！？!?\n，,；;\s]|请|麻烦|[帮给替]我|帮忙|你)(?:[写编续拟](?:[写个]|一|几|两|点|些|首|篇|段|封|份|句)|改写|润色|缩写|扩写"
    r"|仿写|起草|创作|生成|翻[译成]|[英中日]译|(?:修改|改[改成]?|纠正|检查)[^。！？\n：:]{0,12}?"
    r"(?:话|句|段|文[章字稿]|作文|语病|语法|错别字|介绍|简介|稿)"
    r"|[把将][^。！？\n：:，,]{0,10}[话句段文稿信]\w{0,4}(?:改|翻|润色|缩|译))[^。！？\n：:]{0,40}[：:]"
)
# The author asks not to remember the message.
_PRIVATE: Final = re.compile(
    r"(?<!i )(?<!we )\b(?:don't|do not|dont|never|please not|no need to|needn't|need not)(?: need to| have to)?"
    r" (?:ever |please |just )?(?:(?:remember|memori[sz]e|save|store|record|note|(?:note|write) down"
    r"|(?:keep|make|take) a (?:note|record) of) (?:this|it|that|any of|what|anything|my|i|the following)\b"
    r"|(?:keep|log) (?:this|that|any of (?:this|that))(?=\s{0,3}(?:[.,:;!)–—-]|$))"
    r"|(?:put|add|enter|save|store|keep|write) (?:this|that|it|any of it|anything) (?:in|to|into) (?:your |the )?"
    r"(?:memory|memories|notes|profile)\b)|n(?:'t|ot) write (?:this|it|that) down\b"
    r"|\bnot (?:to be )?(?:saved|stored|remembered|recorded|memori[sz]ed|written|noted)(?=\s{0,3}(?:[.,:;!)–—-]|$))"
    r"|\b(?:keep|leave) (?:this|that|it|all of this) out of (?:your |the )?(?:memory|memories|notes|records?)\b"
    r"|\b(?:this is|strictly) confidential\b|\b(?:off|not for) the record\b|\bnot for your memory\b"
    r"|\bbetween (?:us|you and me)\s*[,:;—-]|\b(?:stays|keep (?:this|it|that)) between (?:us|you and me)\b"
    r"|(?<!i )(?<!we )\bkeep (?:this|that|it) (?:private|secret|confidential|to yourself)(?=\s?(?:$|[^\w\s]))"
    # «别记错了» and «别存成 PDF» say something else.
    r"|(?:不要|[别別]|請勿|请勿|不用|无需|不必|不需要)(?:再|就|帮我|替我|给我|往心里|[把将][^，,。\n]{1,8}){0,2}"
    r"(?:[记記](?:[住下]|得我)|存下|写进记忆|[记記存][了吧啊哦啦]{0,2}(?=[\s，,。；;：:！!?？）)]|$)"
    r"|(?:保存|[记記][录錄])(?:下来|了|啊|哦)?(?=这|以下|上面|我|任何|[，,。；;：:！!？?\s）)]|$))"
    r"|(?:这|以下|下面|上面|接下来|刚才)[^，,。！？：:；\n]{0,8}?(?:不要|别|不用|不必|不需要)(?:再|就|帮我|替我|给我){0,2}[记存]"
    r"(?![错混得挂成反])"
    r"|(?:不要|别|不用|请勿)[^，,。！？\n]{0,8}?[记存写放加][到进入][^，,。！？\n]{0,4}(?:记忆|备忘|档案)"
    r"|(?:请|帮我|替我|要)保密|私下说"
)
# The author asks to forget what was said before. It states nothing, and a model has to see it.
_FORGET: Final = re.compile(
    r"(?:^|[.,;:!?\n—–-]\s{0,3}|\b(?:please|just|now|ok|okay|(?:can|could|would|will|should) you) )forget "
    r"(?:that |about |what |where |how |when |who |which |everything |anything |all |you know ){0,4}"
    r"(?:i|me|my|i'm|our|the|this|that|everything|all)\b"
    r"|(?:^|[，,。；;：:！!？?\s]|请你?|麻烦你?)(?:帮我)?(?:(?:忘掉|忘记|忘了)吧?(?=我|关于|那|这|刚|一切|所有)"
    r"|把[^，,。？?]{1,40}忘掉|把[^，,。？?]{0,12}我[^，,。？?]{1,30}(?:忘记|忘了))"
)
# Characters that look like ASCII letters, spaces and apostrophes.
_LOOKS: Final = (
    {code: code - 0xFEE0 for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))}
    | dict.fromkeys((0x00A0, 0x3000, 0x202F, 0x205F, *range(0x2000, 0x200B)), " ")
    | dict.fromkeys(map(ord, "‘’ʼ＇"), "'")
)
_UNSEEN: Final = dict.fromkeys((0x00AD, 0x180E, *range(0x200B, 0x2010), 0x2060, 0xFEFF))


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence: `text` as it was said, `folded` with quotations masked, in lower case, variants of characters alike.

    `speaker` is the word before it that may be a name: «Alex: I prefer tabs.», but also «Coffee: I prefer it black.»
    """

    text: str
    folded: str
    speaker: str = ""


def split_sentences(content: str, fold: Fold = str) -> list[Sentence]:
    """Return the sentences of the first 16,384 characters; none of a message that is not to be remembered.

    A sentence over 400 characters is cut at its last clause before that. Without one it is data, and left out.
    """
    text = content[:MAX_MESSAGE_READ_CHARS]
    plain = _normalize(text, fold)
    # A letter with a longer lower case (İ) shifts all positions; then nothing is cut.
    found = [form.search(plain) for form in (_MATERIAL, _REQUESTED)] if len(plain) == len(text) else []
    end = min((match.start() for match in found if match is not None), default=len(text))
    if _PRIVATE.search(plain) or _FORGET.search(plain) or ("\n" in plain and _SIGNED.search(plain)):
        return []
    said: list[Sentence] = []
    for line, speaker in _iter_lines(text[:end]):
        parts = (_shorten(part) for part in _split_line(_INLINE_CODE.sub(r"\1", line)))
        said += (Sentence(part, _normalize(mask_quoted(part), fold), speaker) for part in parts if part)
    return said


def is_private(content: str, fold: Fold = str) -> bool:
    """Return whether somebody asks not to remember a message."""
    return _PRIVATE.search(_normalize(content[:MAX_MESSAGE_READ_CHARS], fold)) is not None


def find_forget_request(content: str, fold: Fold = str) -> str:
    """Return the sentences in lower case that ask to forget something; empty where none does."""
    plain = _normalize(content[:MAX_MESSAGE_READ_CHARS], fold)
    sentences = (sentence.strip() for sentence, _ in iter_sentences(plain))
    return " ".join(sentence for sentence in sentences if _FORGET.search(sentence))


def is_only_private(content: str, fold: Fold = str) -> bool:
    """Return whether a message says nothing but that what was said before is not to be remembered."""
    rest, count = _PRIVATE.subn("", _normalize(content[:MAX_MESSAGE_READ_CHARS], fold))
    return count > 0 and len("".join(filter(str.isalnum, rest))) <= _SHORT_REST_CHARS


def strip_line_label(text: str) -> str:
    """Return a chat line without the time and the speaker before it; a text that is nothing else stays.

    Without a time, what looks like a speaker may be a topic: «Python: how do I …».
    """
    rest = _CLOCK.sub("", text)
    named = _SPEAKER.match(rest) if rest != text else None
    rest = rest[named.end() :] if named is not None and _is_speaker(named["name"]) else rest
    return rest if any(map(str.isalnum, rest)) else text


def mask_quoted(text: str) -> str:
    """Return a text of the same length with masked quotations. A short quotation is a name («dark mode») and stays."""
    return _QUOTED.sub(lambda quote: quote[0] if _is_name(quote[0]) else MASK * len(quote[0]), text)


def is_chinese(text: str) -> bool:
    """Return whether at least a fifth of a text is Chinese; it is then answered in Chinese."""
    return len(_HAN.findall(text)) * 5 >= max(len("".join(text.split())), 1)


def _iter_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines that the author says, without code, time and bullet, each with the speaker that it names."""
    lines = list(_iter_plain_lines(text))
    labelled = [_SPEAKER.match(_CLOCK.sub("", line)) for line in lines]
    speakers = {found["name"] for found in labelled if found is not None and _is_speaker(found["name"])}
    if len(speakers) > 1:
        # Several people speak in one message: it is a log that somebody pasted.
        return
    for line in lines:
        rest = _CLOCK.sub("", line)
        named = _SPEAKER.match(rest)
        speaker = named["name"] if named is not None and named["name"] in speakers else ""
        if named is not None and speaker:
            rest = rest[named.end() :]
        if rest.strip() and not _NOT_SPOKEN.match(rest):
            yield _BULLET.sub("", rest), speaker


def _iter_plain_lines(text: str) -> Iterator[str]:
    fenced = False
    for line in recalled.remove_recalled_lines(text).splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield line


def _split_line(line: str) -> Iterator[str]:
    start = 0
    is_numbered = _NUMBERED.search(line) is not None
    for end in SENTENCE_END.finditer(line):
        before = line[max(start, end.start() - 8) : end.start()]
        is_end = not is_numbered and _LAST_FIGURE.search(before) and _NEW_WORD.match(line, end.end())
        if end[0] == "." and not is_end and _ABBREVIATION.search(before):
            continue
        if part := line[start : end.end()].strip():
            yield part
        start = end.end()
    if part := line[start:].strip():
        yield part


def _shorten(sentence: str) -> str:
    if len(sentence) <= MAX_SENTENCE_CHARS:
        return sentence
    ends = [end.start() for end in COMMA.finditer(sentence, 0, MAX_SENTENCE_CHARS)]
    return sentence[: ends[-1]] if ends else ""


def _is_speaker(name: str) -> bool:
    return name.lower().split()[0] not in _LABELS and name[-1] not in "说问写讲道着"


def _is_name(quoted: str) -> bool:
    inner = quoted.strip("“”„\"＂「」『』‘’'《》«»")
    return len(inner) <= _SHORT_QUOTE_CHARS and not _SAYS_SOMETHING.search(inner)


def _normalize(said: str, fold: Fold) -> str:
    return fold(said.translate(_LOOKS)).translate(_UNSEEN).lower()
