"""How Chinese and English ask to remember something, introduce a person, and give a standing instruction.

All forms are matched against `sentences.Sentence.folded`: lower case, quotations masked. Few, and nearly always right.
"""

import re
from typing import Final

from knowhub.conversations.language.doubt_words import IF_ZH, JEST_ZH, MAYBE, MAYBE_ZH, PAST_ZH, SUPPOSE


def compile_any(*forms: str) -> re.Pattern[str]:
    """Return one pattern that matches any of several."""
    return re.compile("|".join(f"(?:{form})" for form in forms))


_START: Final = (
    r"(?:^|[,;:.!(–—]\s*|\b(?:and|but|so|also|btw|oh|hi|hey|well|ok|okay|please|yes|no|because|since|then) ?,? )"
)
_START_ZH: Final = r"(?:^|[，,、。；;：:！!（(\s]|另外|对了|那|好)"
_LANGUAGES: Final = (
    r"english|chinese|mandarin|cantonese|german|french|spanish|japanese|korean|italian|portuguese|russian|arabic|hindi"
)

REQUEST: Final = compile_any(
    # «And remember to rest» encourages somebody.
    rf"{_START}(?:please |kindly )?(?<!\b(?:and|but) )(?:remember(?! to\b|,)|keep in mind|don't forget that"
    r"|for the record|for future reference|fyi|note to self|(?:make a|take) note|(?:write|note|put) (?:this |it )?down)"
    r"\b(?! (?:when|how|the time|what|where|who|why|if|me|you|our)\b)",
    rf"{_START}(?:please |can you |could you )?remind (?:me|us) (?!how|of how|what|why|that life)",
    rf"{_START_ZH}(?:(?:[^，,。不没别忘我他她]{{0,8}}?|(?:请|你)?[帮给]我(?:也|都)?)(?:记住|记一下|记下来?|记着|牢记)(?!了?[吗没么]|你|密码)|(?:请|到时候|记得|帮我|提前|也|要|再){{0,3}}提醒(?:一下)?我)",
)

# Behind a comma, «always» mostly goes on about somebody: «a good friend, always there».
_ALWAYS_START: Final = (
    r"(?:^(?:and |but |so |also |ok,? |okay,? |no,? |yes,? )?|[:;.!(–—]\s*|\bplease "
    r"|\b(?:you (?:should|must|need to|have to|to)|(?:can|could|would|will) you) (?:please )?)"
)
# «Never give up», «always there for me»: what follows is no order to an agent.
_NO_ORDER: Final = (
    r"(?! (?:mind|again|been|had|got|heard|was|were|is|does|has|will|would|works?|an?|the (?:same|best)|my|your|one"
    r"|there|here|great|good|nice|happy|fun|ready|so|very|too|up|in|on|at|for|with|and|let|give|quit|lose|forget|love"
    r"|feel|have|want|enjoy)\b| \w+(?:ed|ing)\b| (?!press|pass|process|address|discuss|focus|cross)\w+s\b)"
)
INSTRUCTION: Final = compile_any(
    r"\b(?:from now on|going forward|henceforth|from here on(?: out)?)\b(?!,? (?:it(?:'s| is)|he|she|they|there)\b)",
    rf"(?:(?:{_ALWAYS_START}|{_START})(?:never|(?:don't|do not|dont) ever)|{_ALWAYS_START}always)\b{_NO_ORDER} \w",
    rf"{_START}(?:please )?keep (?:your |all |the |my )?(?:answers|replies|responses|messages|summaries)\b",
    rf"{_START}(?:whenever|every time|each time) you (?!need|want|like|feel|are|have|can)\w",
    r"\b(?:no|don't use|do not use|avoid|stop using|without) (?:any )?(?:emojis?|emoticons|exclamation (?:marks|points)"
    r"|em[- ]dashes|bullet (?:points|lists))\b(?! here| in (?:this|that|the))",
    r"\b(?:house |my |our |one |a )rules?\b[^.?!:]{0,24}:",
    r"(?<![了完好之起天月年])(?:以后|今后|往后)(?!我[请会])[^，,。？?]{0,8}?(?:一律|都|要|请|别|不要|不再|必须|统一|不准|不许|不用|用|改|只|先|直接|务必|给我|按|叫)|从现在(?:起|开始)|从今(?:以后|往后|天起|天开始)|下次(?:起|开始)",
    rf"{_START_ZH}(?:你|请|一定)?每次[^，,。？?]{{0,14}}?(?:都(?!会|报|失败|出错|是|很|有|不行|没|崩|卡)|先|必须|要|记得|不要|别)",
    r"一律|永远(?:不要|别|不许)|绝对不(?:许|要|能|准)|不许|严禁|始终(?:要|用)|总是用",
    r"(?:不要|别)(?:再)?(?:用|发|加|带|写)(?:任何|那么多|太多|那些)?(?:小)?(?:表情|emoji|颜文字|感叹号|客套话)",
)
ONCE: Final = compile_any(
    r"\bthis time\b|\bfor now\b|\bthis once\b|\bfor this (?:one|task|file|example|script|answer)\b|\btoday only\b",
    r"这[次条封句段篇题]|本次|下(?:一|个)[条题封]|这一次|这回|今天先|暂时|先这样|这个(?:文件|函数|脚本|例子|问题|任务)",
)

_ADVERBS: Final = r"(?:\w+ly |much |no longer |still |also |always |do |don't |do not |can't |cannot ){0,3}"
PREFERENCE: Final = compile_any(
    # «I just love …» is mostly meant the other way round.
    rf"(?<!would )(?<!if )(?<!whether )\bi(?:(?:'d| would)? {_ADVERBS}prefer| (?!just ){_ADVERBS}(?:like|love|enjoy"
    r"|hate|dislike|stand)(?! the\b))\b(?! (?:this|that|it|these|those|them|him|her|you|your|how|what|where|when|to"
    r"|being)\b) \W?\w",
    r"\bi (?:always|only|never) want\b",
    r"\bmy (?:absolute |all-time )?(?:favou?rite|preferred|go-to) (?:\w+ ){1,3}(?:is|are)\b",
    r"\bi(?:'m| am|m) (?:also |strictly |a |an |very ){0,2}(?:vegetarian|vegan|pescatarian|allergic to|lactose"
    r"|gluten|celiac|coeliac|diabetic|colou?r[- ]?blind|left[- ]handed|dyslexic|deaf|asthmatic)\b",
    r"\bi (?:don't|do not|dont|never) (?:eat|drink|smoke|fly|drive)\b(?! (?:this|that|it|here|now|and|like|off)\b)",
    r"我(?:个人|自己|还是|一直|其实|真的|比较|最|更|很|非常|特别|也|都|向来|从来|通常|一般|平时|不太|不怎么|不再?)*"
    r"(?:喜欢|偏[好爱]|倾向于|习惯用|讨厌|反感|受不了|爱[吃喝用])(?![这那](?![种类])|[它你他她死了]|过(?![年节冬]))[^，,。？?]",
    r"我[^，,。？?]{0,6}对(?![他她你])[^，,。？?]{1,12}过敏|我(?:从来|一般|一直)?(?:不吃|不喝|吃素|不抽)(?!了|饱|完|这)",
)

# A sentence that points at another one: «Remember this.»
# Sentences that state nothing lasting: questions, hypotheses, hedges, jokes, the past, and examples.
QUESTION: Final = compile_any(
    r"\bi(?:'m| am| was) wondering\b|\bi\b[^,;]{0,30}\b(?:to know|decid(?:e|ing)|figure out) (?:if|whether)\b",
    r"[,;] (?:and |so |but )?(?:can|could|would|will) you\b|[?？][\s”」\"')）]*$",
    r"(?:吗|么|呢)[。.!！…~]*$|是否|是不是|要不要|该不该|为什么|怎么(?:办|样|才|做|写|用)|谁说",
)
POLITE: Final = compile_any(
    r"\b(?:can|could|would|will) you (?:please )?(?:always|never|remember|remind|call me)\b|(?:能不能|能否|可不可以"
    r"|可以)(?:请)?你?以后|以后[^？?]{2,40}(?:好吗|行吗|可以吗|好不好)|以后你?(?:能不能|能否|可不可以|可以)",
)
NOT_MEANT: Final = compile_any(
    rf"^(?:and |but )?(?:if|what if|even if|unless|{SUPPOSE})\b",
    rf"\b(?:{MAYBE}|not sure|i guess|i wonder|would have|could have|i wish|pretend|not that i"
    r"|hypothetically|for example|e\.g\.|joking|kidding|lol|haha+|dreamed|dreamt|you'd think"
    r"|not true|a (?:lie|joke)|(?:would|had|were) i|in (?:this|the|my|a) (?:story|game|dream|novel)"
    r"|as an? (?:\w+ )?(?:user|admin|customer|visitor),? i)\b",
    rf"^(?:{IF_ZH}|即使|就算|除非|只要)|要是哪天|要是我|^[我你他她](?:{IF_ZH})|可能|好像|似乎|{MAYBE_ZH}"
    rf"|比如|例如|^作为一?[名个位]?(?:用户|管理员|访客|顾客)[，,]|{JEST_ZH}|还以为|不是说|没说|不用每|不必",
)
STORY: Final = re.compile(
    r"\bin (?:my|our|this) (?:novel|story)\b|我写?的?(?:小说|故事)[里中]|(?:小说|故事)[里中]，?我"
)
PAST: Final = compile_any(r"\b(?:used to|previously|formerly|back then|when i was|years ago)\b", f"{PAST_ZH}|小时候")
PRESENT: Final = re.compile(r"\b(?:now|but)\b|现在|如今|目前|但")
REPORTED: Final = compile_any(
    r"(?<!\bi )(?<!\bwe )\b(?:said|says|say|told|tells|telling|asks|asked|wrote|writes|thinks|thought|claims|claimed"
    r"|suggests|suggested|recommends|insists|believes|reads|states|according to)\b|\bi (?:told|lied)\b(?! you\b)",
    r"(?<![我你来话实再者听先])说|以为|认为|觉得|建议|告诉|声称|写[道着明]|(?<![你请])(?:让|劝|催|逼|要|要求)我",
    # Whose wish or habit it is: 我妈…, 他….
    r"(?:[他她它]们?|(?<![跟帮给和对替为叫让])我(?![们的希要想需现以从])[\u4e00-\u9fff]{1,3})[都总常老]?(?=[\u4e00-\u9fff]$)",
)
TASK: Final = compile_any(
    r"^(?:please )?(?:(?:can|could|would|will) you|write|draft|make|create|book|find|show|give|tell)\b",
    r"^(?:请|麻烦|那)?你?(?:帮我|给我|替我|写|编|生成|起草|画|做)(?:一|个|篇|首|段|封|份|写|查|看|订|排|算|想|整理|列)",
)

CANCELLED: Final = compile_any(
    r"(?<!not )(?<!never )(?<!n't )(?<!n't been )(?<!not been )\b(?:got )?cancel(?:l?ed|s)\b|\bha(?:d|ve) to cancel\b"
    r"|(?<!not )\b(?:called off|scrapped|(?:is|are) off(?! (?:the|my|by|to)\b))|\b(?:fell|fallen) through\b|\ba no-go\b"
    r"|\b(?:not|isn't|aren't|won't) (?:going to )?(?:happen(?:ing)?|take place|(?:be )?a thing)\b",
    r"(?<![没别不未])(?<!没有)(?<!不会)(?<!不要)取消(?:[了掉啦吧]|(?=[，,。！!]|$))|[被已]经?取消|作罢|泡汤|黄了|没戏"
    r"|不(?:用|能)?(?:[去来办开搞做考看约见上]|参加)(?:[了啦]|成)",
)
# A plan that takes the place of an earlier one.
CHANGE: Final = compile_any(
    r"\b(?:postponed|pushed|(?<!\bi )(?<!\bwe )moved|moved(?! to\b)|moves|slips"
    r"|slipped|rescheduled|delayed|deferred|put (?:off|back)|brought forward|new (?:\w+ )?date|instead)\b"
    r"|\d(?: ?[ap]m)?,? not (?:at |on )?\d",
    r"推[迟到至]|顺延|延[期到至]|改到|改成|改为|挪到|提前到|重新定|改在",
)
# What a value looks like: anything; a name; in a text in lower case a name only behind «live in»; a name or figures.
_ANY, _NAME, _CAPITAL, _MIXED = (
    rf"(?P<{group}>[^,;!?()\n]{{1,60}}?)" for group in ("value", "name", "capital", "mixed")
)
_END: Final = (
    r"(?=\s(?:and|but|in|at|for|on|with|from|since|because|as|now|last|this|after|when|where|near|so|too|any ?more"
    r"|any longer|these days|again|already|(?:\d{1,2}|an?|one|two|three|four|five|six|some) (?:day|week|month"
    r"|year)s?)\b|[,;!?()\n]|\.\s*$|\s[-–—]|$)"
)
_ROLES: Final = (
    r"engineer|developer|programmer|dev|designer|teacher|nurse|doctor|student|lawyer|writer|translator|analyst"
    r"|scientist|researcher|manager|consultant|accountant|architect|chef|pilot|journalist|editor|pharmacist|dentist"
    r"|therapist|mechanic|electrician|carpenter|librarian|photographer|musician|artist|freelancer|professor|lecturer"
    r"|admin|sre|dba|cto|ceo|founder|paramedic|midwife|vet|farmer|baker|barista|plumber|producer|director|officer"
)
_NOW: Final = r"(?:now |currently |also |still |just |recently |finally |already ){0,2}"
_NO: Final = r"(?P<no>no longer |don't |do not |dont |not )?"
_ELSEWHERE: Final = r"(?!(?:an?|my|the|this|that|home|it|you|me|him|her|them|hope|fear)\b)"
_I: Final = r"(?:\bi |\bi\b[^.;!?\n]{0,80}?(?:,|\band) )"
_STOP: Final = r"\b(?P<no>(?:stop|quit|never|don't|do not|dont|no longer) )?"
_STOP_ZH: Final = r"(?P<no>别再?|不要再?|不用再?)?"
_MOVED: Final = (
    rf"(?:^|\b(?:i|we)(?:'ve| have)? ){_NOW}(?P<moved>moved|relocated) (?:from [^,;.!?\n]{{1,30}}? )?(?:back )?to "
)
# Without one of these words «I moved to Leeds» may be as little about a home as «I moved to Postgres».
DWELLING: Final = re.compile(
    r"\b(?:liv(?:e|ing)|home|house|flat|apartment|floor|rent(?:ing)?|landlord|city|town|village|country|abroad|family|kids)\b"
)
FOR_A_WHILE: Final = re.compile(
    r"\b(?:(?:this|for (?:the|an?|\d\d?|two|three|some|a few)) (?:day|night|week|month|summer)(?:s|end)?|these days)\b"
)
_CALL: Final = r"call me (?!back|when|if|later|tomorrow|tonight|an? |at |on |in |maybe)"
_I_ZH: Final = r"(?:^|[，,。；;\s]|我)(?:现在|目前|如今|就|一直|还|已经|其实|刚|上周|上个?月底?|去年|今年|最近|正式)*+"
_NO_ZH: Final = r"(?P<no>不再|不)?"
_END_ZH: Final = r"(?=[了吧，,、。；;！!？?\s]|就行|就好|就可以|$)"
_WORKPLACE_ZH: Final = r"[^，,。；;！!？?\n什么哪家]{2,16}?"
_SINCE_ZH: Final = r"(?:已经|刚刚?|最近|上周|上个?月)*+(?:从[^，,。离辞跳换入]{1,10})?"
_TONGUE_ZH: Final = r"(?P<value>中文|英文|英语|日语|日文|法语|德语|粤语|普通话)"
_SAME_SLOT: Final = {
    "timezone": "time zone|timezone|时区", "native language": "native language|mother tongue|first language|母语",
    "email": "email address|email|e-mail address|e-mail|邮箱", "birthday": "birthday|生日", "job": "职业|职位",
    "employer": "employer|公司", "hometown": "home town|hometown|家乡|老家", "address": "address|地址",
    "phone number": "phone number|电话", "pronouns": "pronouns",
}  # fmt: skip
NAMED_SLOTS: Final = {name: slot for slot, names in _SAME_SLOT.items() for name in names.split("|")}
"""The slots of attributes that are named: «my time zone is …», 我的时区是…."""
_NAMED: Final = f"(?P<slot>{'|'.join(NAMED_SLOTS)})"
# Single-valued facts: the newest value of a slot is current. With the group `no`, the value is not so any more.
_SLOT_FORMS: Final = {
    "name": (
        rf"\bmy (?:full |first |real )?name(?:'s| is) (?:now )?{_NO}{_NAME}{_END}",
        rf"(?:^|[，,。；;\s])我(?:的名字)?(?:现在|就)*{_NO_ZH}叫(?![我人他她它你了])(?P<name>[^，,。.；;！!？?、\s什么哪谁]{{2,6}}?){_END_ZH}",
    ),
    "called": (
        rf"{_START}(?:please |you can |just ){{0,3}}{_CALL}(?:(?<=please call me ){_NAME}|{_CAPITAL}){_END}",
        rf"\b(?P<no>don't|do not|dont|stop|never) call(?:ing)? me {_CAPITAL}{_END}",
        rf"{_STOP_ZH}叫我(?!一声|回|去|来|做|干|怎|什么|的)(?P<called>[^，,。.；;！!？?、\s什么哪谁]{{1,14}}?){_END_ZH}",
    ),
    "home": (
        rf"(?:\bi(?:'m| am|m)? |(?:,|\band) ){_NOW}{_NO}(?:live|living|based) in {_ELSEWHERE}{_NAME}{_END}",
        rf"{_MOVED}{_ELSEWHERE}{_NAME}{_END}",
        rf"{_I_ZH}{_NO_ZH}住(?:在|(?![院校店家了着过不一]|宿舍|酒店|宾馆|公司))(?P<place>[^，,。.；;！!？?、\s什么哪谁]{{1,14}}?){_END_ZH}",
        rf"{_I_ZH}(?:从[^，,。；;！!？?\n搬]{{1,8}})?搬(?:到|去|来|回)了?(?![一新那这另])(?![^，,。]{{0,6}}[楼房屋区])(?P<town>[^，,。；;！!？?\n一新个的服集仓目办a-z]{{2,8}}?){_END_ZH}",
    ),
    "job": (
        rf"{_I}{_NOW}{_NO}work as (?:an? |the )?{_ANY}{_END}",
        (
            rf"\bi(?:'m| am|m) {_NOW}{_NO}(?:an?|the) (?P<value>(?:[\w/+#-]{{1,30}} ){{0,4}}?(?:{_ROLES}))"
            r"(?= (?:at|in|for|with|from|and|who|working|based|on)\b|[,.;!()]|$)"
        ),
        rf"(?:^|[，,。；;\s]|我)(?:现在|目前|其实|已经)*(?:(?P<no>不再)是(?:一?[名位])?|是一?[名位])(?P<value>[^，,。；;！!？?\n的了]{{2,14}}?){_END_ZH}",
    ),
    "employer": (
        rf"{_I}{_NOW}{_NO}work (?:at|for) (?:the )?{_ELSEWHERE}{_CAPITAL}{_END}",
        (
            r"\bi(?:'ve| have)? (?:started work(?:ing)?|(?:started|got|found) a (?:new )?(?:job|role)"
            r"|(?:quit|left) [^,.;!?\n]{1,40}(?:,|;| and) (?:and |now )?i(?:'m| am|) ?(?:now )?(?:work(?:ing)?)?) ?"
            rf"(?:at|for|with) (?:the )?{_ELSEWHERE}{_CAPITAL}{_END}"
        ),
        rf"\bi(?:'ve)? {_NOW}(?P<no>quit|left|resigned)(?: my job)?(?: from| at)? (?:the )?{_CAPITAL}{_END}",
        rf"(?P<no>从)(?P<firm>{_WORKPLACE_ZH})(?:离职|辞职|离开){_END_ZH}",
        rf"(?:我(?:现在|目前)?|^我[^，,。]{{1,20}}[，,]|^(?:现在|目前))(?:在|[去到](?=[^，,。]{{2,20}}班了))(?P<firm>{_WORKPLACE_ZH})(?:工作|上班了?|任职|就职){_END_ZH}",
        rf"(?:^|我){_SINCE_ZH}(?:入职|跳槽[到去]|(?:离职|辞职|换(?:了?工作|了?公司))了?[，,]我?(?:现在|目前)?(?:在|去))了?(?P<firm>{_WORKPLACE_ZH})(?:工作|上班)?{_END_ZH}",
    ),
    "age": (
        r"\bi(?:'m| am|m) (?P<value>\d{1,2}) ?(?:years old|y/?o\b)(?! at\b)",
        r"\bi(?:'ve| have)? (?:just )?turned (?P<value>\d{1,2})(?= (?:today|yesterday|this|on)\b|[,.;!]|$)",
        r"我(?:今[年天]|[刚已]|昨天|上周|满){0,3}(?P<value>\d{1,3}|[一二三四五六七八九十]{2,3})岁(?!的)",
    ),
    "reply language": (
        (
            rf"{_STOP}(?:(?:answer|reply|respond)(?:ing)?(?: to)?(?: me| us| everything| all \w+| my \w+| only){{0,2}}"
            rf"|(?:answers|replies|responses)\b[^,.;?]{{0,24}}?) in (?P<value>{_LANGUAGES})\b"
        ),
        rf"(?P<no>别再?|不要再?)用{_TONGUE_ZH}{_END_ZH}",
        rf"{_STOP_ZH}用{_TONGUE_ZH}(?:来|跟我|给我)?(?:回答|回复|答复|交流)(?:我|所有|的?问题){{0,3}}{_END_ZH}",
        rf"(?:回答|回复|答复)(?:[我都时请要也就只]|的时候|一律|统一|全部|必须|问题){{0,4}}用{_TONGUE_ZH}",
    ),
    "": (
        rf"(?<!of )\bmy (?P<slot>(?:favou?rite|preferred|go-to) (?:\w+ ){{0,2}}?\w+)(?:'s| is) (?:now )?{_ANY}{_END}",
        rf"我(?P<slot>最[喜爱][^，,。；;！!？?\n是]{{0,3}}?的[^，,。；;！!？?\n是现已]{{1,8}})(?:现在)?是(?P<value>\w{{1,16}}?){_END_ZH}",
        rf"\bmy {_NAMED}(?:'s| is| are) (?:now )?{_NO}(?!what |in |too |so ){_MIXED}{_END}",
        rf"我的?{_NAMED}(?:现在|就)?(?:是|在)(?!一?个)(?P<mixed>[^，,。；;！!？?\n什么哪]{{1,24}}?)(?=[，,。；;！!？?\s]|$)",
    ),
}
SLOTS: Final = tuple((slot, re.compile(form)) for slot, forms in _SLOT_FORMS.items() for form in forms)
"""The forms of each slot. Those without a slot name it in the group `slot`."""
