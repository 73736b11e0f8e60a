"""Words of others in a message: a chat that was pasted, a mail, a text to work on, a part that is played."""

import re
from collections.abc import Sequence
from typing import Final

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
# From here on, the rest of the message is what shall be worked on, what somebody else wrote, or a part that is played.
MATERIAL: Final = re.compile(
    r"(?:翻译|译成|译为|改写|润色|总结|概括|校对|解释|分析|translate|rewrite|proofread|paraphrase|summari[sz]e|explain"
    r"|analy[sz]e|correct(?!ions?\b)|classify)[^。.!！?？\n:：]{0,60}[:：]"
    r"|\b(?:(?:here(?:'s| is| are)|this is|below is)(?! my\b)|the following|i (?:just )?(?:got|received)"
    r"|(?:reply|respond|answer) to (?:this|that|the))\b"
    rf"[^.!?\n:]{{0,60}}\b{_MATERIAL_EN}\b[^.!?\n:]{{0,40}}:"
    r"|(?:(?:这是|下面是|以下是)(?!我的)|收到(?:了)?|转发|(?:帮我|请|麻烦)?(?:回复|回|看|读|处理)(?:一下)?(?:这|下面|以下))"
    rf"[^。！？\n：:]{{0,30}}{_MATERIAL_ZH}[^。！？\n：:]{{0,20}}[：:]"
    r"|(?:^|[.!?。！？\n])\s*(?:role-?play\b|let's role-?play|(?:请|现在|接下来)*你(?:来|现在)?扮演"
    r"|角色扮演|我们来(?:扮演|玩))"
    r"|^\s*(?:from|subject|发件人|主题)[:：]\s*\S|(?:^|\n)dear [^\n,:]{1,40}[,:]\s*\n|(?:^|\n)尊敬的[^\n：:]{1,20}[：:]"
)
# Who writes so has pasted a mail, though it begins like a greeting to the assistant.
_GREETING: Final = re.compile(r"(?:^|\n)(?:hi|hello|hey)\b[^\n]{0,40},\s*\n")
_SIGNED: Final = re.compile(
    r"\n\s*(?:best|kind regards|best regards|regards|sincerely|yours|cheers)(?:,[^\n]{0,30}|,?\s*\n[^\n]{1,40})\s*$"
)
_TURN: Final = re.compile(
    r"^\s*(?:\[[^\]\n]{1,20}\]\s*)?(?P<who>[^\W\d_][\w .'-]{0,24}?)\s?(?:[（(][^）)\n]{1,20}[）)])?[:：]\s*"
    r"(?P<said>\S.*)$"
)
_ASSISTANTS: Final = frozenset(
    ("assistant", "ai", "claude", "chatgpt", "gpt", "bot", "gemini", "copilot", "助手", "机器人", "客服")
)
# Who says so of themselves: none of these is somebody else.
_OWN: Final = frozenset(("me", "i", "user", "human", "myself", "我", "用户", "本人"))
# A first name in English is a word with a capital that is the whole label; in Chinese it begins like a name or a title.
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
# Words that head what the user says and are written as a name is.
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


def is_mail(matched: str) -> bool:
    """Tell whether a text in lower case greets somebody and is signed: then all of it is a letter."""
    return _GREETING.match(matched) is not None and _SIGNED.search(matched) is not None


def of_others(lines: Sequence[str]) -> list[bool]:
    """Tell of each line whether somebody else says it: «Alice: I prefer tabs», and what follows that up to a gap.

    Where anybody but the user speaks, it is a log, and what stands behind «User:» or «我：» is no less pasted.
    """
    speakers = [_speaker(line) for line in lines]
    log = any(who is not None and who not in _OWN for who in speakers)
    told: list[bool] = []
    inside = False
    for line, who in zip(lines, speakers, strict=True):
        if not line.strip():
            inside = False
        elif who is not None:
            inside = log
        told.append(inside)
    return told


def _speaker(line: str) -> str | None:
    turn = _TURN.match(line)
    if turn is None:
        return None
    who = turn["who"].strip()
    lower = who.lower()
    if lower in _ASSISTANTS or lower in _OWN:
        return lower
    is_name = _NAME_EN.fullmatch(who) if who.isascii() else _NAME_ZH.fullmatch(who)
    # «Backend: we use Go» is headed by a matter, not by a name; so is every label with such a word.
    speaks = is_name and _HEADS.isdisjoint(lower.split()) and _SPEAKS.match(turn["said"])
    return lower if speaks else None
