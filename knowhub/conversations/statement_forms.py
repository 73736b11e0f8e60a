"""How Chinese and English ask to remember something, introduce a person, and give a standing instruction.

All forms are matched against `sentences.Sentence.bare`: lower case, quotations masked. They are few on purpose, and
nearly always right; what else is said is found in the transcript.
"""

import re
from typing import Final


def any_of(*forms: str) -> re.Pattern[str]:
    """Return one pattern that matches any of several."""
    return re.compile("|".join(f"(?:{form})" for form in forms))


_START: Final = (
    r"(?:^|[,;:.!(–—]\s*|\b(?:and|but|so|also|btw|oh|hi|hey|well|ok|okay|please|yes|no|because|since|then) ?,? )"
)
_START_ZH: Final = r"(?:^|[，,、。；;：:！!（(\s]|另外|对了|那|好)"
_LANGUAGES: Final = (
    r"english|chinese|mandarin|cantonese|german|french|spanish|japanese|korean|italian|portuguese|russian|arabic|hindi"
)

_REQUEST_START: Final = (
    r"(?:^|[,;:.!(–—]\s*|\b(?:and (?=put|write|note)|also|btw|oh|hi|hey|ok|okay),? )(?:please |kindly )?"
)
REQUEST: Final = any_of(
    # «And remember to rest» encourages somebody.
    rf"{_REQUEST_START}(?:remember(?! to\b|,)|keep in mind|don't forget that|for future reference|for the record|fyi"
    r"|note to self|make a note|take note|write (?:this |it )?down|note (?:this |it )?down|put (?:this |it )?down"
    r"|put this somewhere)\b(?! (?:when|how|the time|what|where|who|why|if|me\b|you\b|our\b))",
    rf"{_REQUEST_START}(?:can you |could you )?remind (?:me|us) (?!how|of how|why|that life)",
    rf"{_START_ZH}(?:[^，,。不没别忘我他她]{{0,8}}?|(?:请|你)?[帮给]我(?:也|都)?)(?:记住|记一下|记下来?|记着|牢记)(?!了?[吗没么]|你|密码)",
    rf"{_START_ZH}(?:请|到时候|记得|帮我|提前|也|要|再){{0,3}}提醒(?:一下)?我",
)
# The content is in other sentences: «Remember this.»
POINTING: Final = any_of(
    r"^(?:ok,? |please |and )*(?:remember|make a note of|keep in mind|note|write down) (?:this|that|it)[.!:]*$",
    r"^(?:请|你|帮我|麻烦)*(?:记住|记一下|记下来?)(?:这个|这点|这些|了)?[。.!！：:]*$",
)

# Behind a comma, «always» mostly goes on about somebody: «a good friend, always there».
_ALWAYS_START: Final = (
    r"(?:^(?:and |but |so |also |ok,? |okay,? |no,? |yes,? )?|[:;.!(–—]\s*|\b(?:please|you (?:should|must|need to"
    r"|have to)) )"
)
# «Never give up», «always there for me»: what follows is no order to an agent.
_NO_ORDER: Final = (
    r"(?! (?:mind|again|been|had|got|was|were|is|does|has|will|would|fails|works?|happens|seems|heard|seen|knew|know"
    r"|thought|liked|loved|tried|used|said|a|an|the|my|your|one|there|here|great|good|nice|fun|happy|ready|worth|so"
    r"|very|such|too|up|down|in|on|at|for|with|and|let|give|quit|end|fail|get|lose|forget|change|stop|dull|enough"
    r"|best|free|love|like(?! that)|hear|feel|have|want|enjoy|come|look|calm)\b)"
)
INSTRUCTION: Final = any_of(
    r"\b(?:from now on|going forward|henceforth|from here on(?: out)?)\b",
    rf"(?:{_START}(?:please |you (?:should|must|need to|have to) )?never"
    rf"|{_ALWAYS_START}always)\b{_NO_ORDER}(?! \w+(?:ed|ing)\b)"
    r"(?! (?!press|pass|process|address|discuss|focus|cross)\w+s\b) \w",
    rf"{_START}(?:please )?(?:don't|do not|dont) ever\b{_NO_ORDER}|\b(?:no|never|not)\b[^?]{{2,80}}\bever\b[.!]?$",
    rf"{_START}(?:please )?keep (?:your |all |the |my )?(?:answers|replies|responses|messages|summaries)\b",
    r"\b(?:whenever|every time|each time) you (?:write|answer|reply|respond|suggest|recommend|send|draft|create|edit"
    r"|change|commit|run|use|show|explain|translate|plan|book|format|mention|make|generate|review|refactor|push|deploy)\b",
    r"\b(?:no|don't use|do not use|avoid|stop using|without) (?:any )?(?:emojis?|emoticons|exclamation (?:marks|points)"
    r"|em[- ]dashes|bullet (?:points|lists))\b(?! here| in (?:this|that|the))",
    rf"{_START}(?:answer|reply|respond|talk|speak|write)(?: to me| me)? (?:only |always )?in (?:{_LANGUAGES})\b",
    r"\bi(?:'d| would)? (?:want|need|expect|like) you to (?:always|never)\b",
    r"\b(?:can|could|would|will) you (?:please )?(?:always|never)\b",
    r"\b(?:house |my |our |one |a )rules?\b[^.?!:]{0,24}:|\bby default,",
    rf"{_START}(?:please |you can |just ){{0,3}}call me (?!back|when|if|later|a |an |at |on |crazy|maybe|old|up|in |out"
    rf"|by )\w",
    r"(?<![了完好之起天月年])(?:以后|今后|往后)[^，,。？?]{0,8}?(?:一律|都|要|请|别|不要|不再|必须|统一|不准|不许|不用|用|改|只|先|直接|务必|给我|按|叫)",
    r"(?:从现在(?:起|开始)|从今(?:以后|往后|天起|天开始)|下次(?:起|开始))",
    rf"{_START_ZH}(?:你|请|一定)?每次[^，,。？?]{{0,14}}?(?:都(?!会|报|失败|出错|是|很|有|不行|没|崩|卡)|先|必须|要|记得|不要|别)",
    r"一律|永远(?:不要|别|不许)|绝对不(?:许|要|能|准)|不许|严禁|始终(?:要|用)|总是用|我希望你?(?:以后|每次|总是|都|永远|始终)",
    rf"{_START_ZH}(?:请)?(?:回答|回复|答复|解释)(?:我|问题)?(?:的?时候?)?[，,]?(?:请|都|尽量|一定|必须|要)*(?:用|使用|简短|简洁|详细)",
    rf"{_START_ZH}(?:请)?用(?:中文|英文|英语|日语|日文|法语|德语|粤语|普通话)(?:来|跟我)?(?:回答|回复|答|说|交流|写)",
    r"(?:不要|别)(?:再)?(?:用|发|加|带|写)(?:任何|那么多|太多|那些)?(?:小)?(?:表情|emoji|颜文字|感叹号|客套话)",
    rf"{_START_ZH}(?:请|就|你)*(?:别|不要)?叫我(?!一声|回|去|来|做|干|怎|什么|的)",
)
ONCE: Final = any_of(
    r"\bthis time\b|\bfor now\b|\bthis once\b|\bfor this (?:one|task|file|example|script|answer)\b|\btoday only\b",
    r"这次|本次|这一次|这回|今天先|暂时|先这样|这个(?:文件|函数|脚本|例子|问题|任务)",
)

_POINTED: Final = (
    r"(?! (?:this|that|it|these|those|them|him|her|you|your|how|what|where|when|to (?:hear|see|know)|being|hearing"
    r"|seeing|the (?:way|idea|look|sound|thought|first|second|third|last|latter|former|other|new))\b)"
)
_ADVERBS: Final = (
    r"(?:really |much |generally |usually |strongly |still |definitely |also |just |always |absolutely |particularly "
    r"|personally |do |don't |do not |can't |cannot ){0,3}"
)
PREFERENCE: Final = any_of(
    rf"\bi(?:'d| would)? {_ADVERBS}prefer\b{_POINTED} ?\W?\w",
    # «I just love …» is mostly meant the other way round.
    rf"(?<!would )(?<!if )(?<!whether )\bi (?!just ){_ADVERBS}"
    rf"(?:like|love|enjoy|hate|dislike|stand|detest)\b{_POINTED} \W?\w",
    r"\bmy (?:absolute |all-time )?(?:favou?rite|preferred|go-to) (?:\w+ ){1,3}(?:is|are)\b",
    r"\bi(?:'m| am) (?:not )?a (?:big |huge )?fan of\b(?! (?:this|that|it|your)\b)",
    r"\bi(?:'m| am|m) (?:also |strictly |a |an |very ){0,2}(?:vegetarian|vegan|pescatarian|allergic to|lactose"
    r"|gluten|celiac|coeliac|diabetic|colou?r[- ]?blind|left[- ]handed|dyslexic|deaf|asthmatic)\b",
    r"\bi (?:don't|do not|dont|never) (?:eat|drink|smoke|fly|drive)\b(?! (?:this|that|it|here|now))",
    r"我(?:个人|自己|还是|一直|其实|真的|比较|最|更|很|非常|特别|也|都|向来|从来|通常|一般|平时)*(?:不太|不怎么|不)?"
    r"(?:喜欢|偏好|偏爱|倾向于|习惯用|讨厌|反感|受不了|爱吃|爱喝)(?!这(?!种|类)|那(?!种|类)|它|你|他|她|上你)[^，,。？?]",
    r"我[^，,。？?]{0,6}对[^，,。？?]{1,12}过敏|我(?:从来|一般|一直)?(?:不吃|不喝|吃素|不抽)(?!了|饱|完)",
    r"我最(?:喜欢|爱|常用)的[^，,。]{1,20}是",
)

# A sentence that needs the one before it, and a reply whose reason comes behind it.
PRONOUN: Final = any_of(
    r"^(?:(?:and|but|so|then|also),? )?(?:it|its|it's|this(?! (?:week|month|year|\w+day)\b)"
    r"|(?:that|they|he|she)(?:'s|'re)?)\b",
    r"^(?:而且|所以|不过)?(?:[他她它]|这(?![个周月年天]))",
)
REPLY: Final = any_of(r"^(?:yes|no|yeah|nope)\b,? ", r"^(?:不|是的?|对|好)[，,]")

# Sentences that state nothing lasting: questions, hypotheses, hedges, jokes, the past, and examples.
QUESTION: Final = any_of(
    r"\bi(?:'m| am| was) wondering\b|\bi\b[^,;]{0,30}\b(?:to know|decid(?:e|ing)|figure out) (?:if|whether)\b",
    r"[,;] (?:and |so |but )?(?:can|could|would|will) you\b",
    r"[?？][\s”」\"')）]*$",
    r"(?:吗|么|呢)[。.!！…~]*$|是否|是不是|要不要|该不该|为什么|怎么(?:办|样|才|做|写|用)|谁说",
)
POLITE: Final = any_of(
    r"\b(?:can|could|would|will) you (?:please )?(?:always|never|remember|remind|call me)\b|(?:能不能|能否|可不可以"
    r"|可以)(?:请)?你?以后|以后[^？?]{2,40}(?:好吗|行吗|可以吗|好不好)|以后你?(?:能不能|能否|可不可以|可以)",
)
NOT_MEANT: Final = any_of(
    r"^(?:and |but )?(?:if|suppose|imagine|assuming|assume|what if|unless|let's say|even if|pretend)\b",
    r"\b(?:maybe|perhaps|might|not sure|undecided|i guess|i wonder|possibly|would have|could have|i wish|pretend"
    r"|hypothetically|for example|for instance|e\.g\.|joking|kidding|lol|haha+|not that i|never said|don't think i"
    r"|don't always|no need|in (?:this|the|my|a) (?:story|novel|game|scenario|dream))\b",
    r"^(?:如果|假如|假设|要是|倘若|万一|即使|就算|除非|只要)|要是哪天|要是我|^[我你他她](?:如果|假如|假设|要是|倘若)|可能|也许|或许|好像|似乎|说不定|不确定|没想好|不一定"
    r"|比如|例如|呵呵|哈哈|嘿嘿|玩笑|说笑|说说而已|做梦|不是说|没说|不用每|不必",
)
PAST: Final = any_of(r"\b(?:used to|previously|formerly|back then|when i was|years ago)\b|以前|曾经|原来|小时候|从前")
REPORTED: Final = any_of(
    r"(?<!\bi )(?<!\bwe )\b(?:said|says|say|told|asks|asked|wrote|writes|thinks|thought|claims|claimed|suggests"
    r"|suggested|recommends|insists|believes|reads|states|according to)\b",
    r"(?<![我你来话实再者听先])说|以为|认为|觉得|建议|告诉|声称|写[道着明]|(?<![你请])(?:让|劝|催|逼|要|要求)我",
    # Whose wish or habit it is: 我妈…, 他….
    r"(?:[他她它]们?|(?<![跟帮给和对替为叫让])我(?![们的希要想需现以从])[\u4e00-\u9fff]{1,3})(?=[\u4e00-\u9fff]$)",
)
TASK: Final = any_of(
    r"^(?:please |ok,? |now )?(?:can|could|would|will) you\b|^(?:please )?(?:write|draft|make|create|book|find|show"
    r"|give|tell)\b",
    r"^(?:请|麻烦|那)?你?(?:帮我|给我|替我|写|编|生成|起草|画|做)(?:一|个|篇|首|段|封|份|查|看|订|排|算|想|整理|列)",
)

# What is before the last colon, and when it is the user's own: short, or said to the agent.
LABEL: Final = re.compile(r"^.*(?::(?![!-~])|：)")
ADDRESSED: Final = re.compile(
    r"^[a-z'-]+(?: [a-z'-]+)?:$|^[\u4e00-\u9fff]{1,4}[：:]$|\b(?:you|your|remember|note|rules?)\b|[你您记]"
    rf"|(?:^|, ?)(?:for|when|with) [^,]*:$|{REQUEST.pattern}|{INSTRUCTION.pattern}"
)
CANCELLED: Final = any_of(
    r"\b(?:cancel(?:l?ed|s)|called off|(?:is|are) off|not happening|(?:won't|not going to) happen)\b",
    r"取消|作罢|泡汤|不[去办来开搞做](?:了|成)",
)
# An earlier instruction does not hold any more.
WITHDRAWN: Final = any_of(
    r"^(?:please |ok,? |now )?you (?:can|may) \w[^?]{2,60} again\b|\b(?:stop \w+ing|no longer|no need to)\b",
    r"^(?:现在)?(?:你)?(?:又)?可以[^？?]{1,20}了|不用再|不必再",
)
# What makes an instruction of its words.
STANDING: Final = re.compile(r"\b(?:from now on|always|never|please|don't)\b|从现在起|以后|每次|一律|不要|[都请别用发]")
# A plan that takes the place of an earlier one.
CHANGE: Final = any_of(
    r"\b(?:postponed|pushed|moved|moves|slips|slipped|rescheduled|delayed|brought forward|new (?:\w+ )?date|instead)\b",
    r"推迟|推到|延期|延到|改到|改成|改为|挪到|提前到|重新定|改在",
)
_VALUE: Final = r"(?P<value>[^,;!?()\n]{1,60}?)"
_END: Final = (
    r"(?=\s(?:and|but|in|at|for|on|with|from|since|because|now|last|this|after|when|where|near|so|too|any ?more"
    r"|any longer|these days|again|already|(?:\d{1,2}|an?|one|two|three|four|five|six|some) (?:day|week|month"
    r"|year)s?)\b|[,;!?()\n]|\.\s*$|\s[-–—]|$)"
)
_ROLES: Final = (
    r"engineer|developer|programmer|dev|designer|teacher|nurse|doctor|student|lawyer|writer|translator|analyst"
    r"|scientist|researcher|manager|consultant|accountant|architect|chef|pilot|journalist|editor|pharmacist|dentist"
    r"|therapist|mechanic|electrician|carpenter|librarian|photographer|musician|artist|freelancer|professor|lecturer"
    r"|admin|sre|dba|cto|ceo|founder|paramedic|midwife|vet|farmer|baker|barista|plumber|producer|director|officer"
    r"|technician|tester|intern|postdoc|mother|father"
)
_NOW: Final = r"(?:now |currently |also |still |just |recently |finally |already ){0,2}"
_NO: Final = r"(?P<no>no longer |don't |do not |dont |not )?"
_VALUE_ZH: Final = r"(?P<value>[^，,。.；;！!？?、\s什么哪谁]{1,14}?)(?=[，,。.；;！!？?、\s了吧]|就行|就好|就可以|$)"
_I_ZH: Final = r"(?:^|[，,。；;\s]|我)(?:现在|目前|就|一直|还|已经|其实|刚|上周|上个?月底?|去年|今年|最近|正式)*+"
_NO_ZH: Final = r"(?P<no>不再|不)?"
# Single-valued facts: the newest value of a slot is current. With the group `no`, the value is not so any more.
_SLOT_FORMS: Final = {
    "name": (
        rf"\bmy (?:full |first |real )?name(?:'s| is) (?:now )?{_NO}{_VALUE}{_END}",
        (
            rf"(?:^|[，,。；;\s])我(?:的名字)?(?:现在|就)*{_NO_ZH}叫(?![我人他她你了])"
            r"(?P<value>[^，,。.；;！!？?、\s什么哪谁]{2,6})(?=[，,。.；;！!？?、\s]|$)"
        ),
    ),
    "called": (
        rf"{_START}(?:please |you can |just ){{0,3}}call me (?!back|when|if|later|a |an |at |on |maybe){_VALUE}{_END}",
        rf"(?<!别)(?<!不要)叫我(?!一声|回|去|来|做|干|怎|什么|的){_VALUE_ZH}",
    ),
    "home": (
        rf"\bi(?:'m| am|m)? {_NOW}{_NO}(?:live|living|based) in (?!an? |my |the |this |hope |fear ){_VALUE}{_END}",
        rf"(?:,|\band) (?:live|living|based) in (?!an? |my |the |this ){_VALUE}{_END}",
        rf"(?:^|\bi |\bi've |\bi have ){_NOW}(?:moved|relocated) (?:back )?to (?!an? |my |the |this ){_VALUE}{_END}",
        rf"{_I_ZH}{_NO_ZH}住在{_VALUE_ZH}",
        (
            rf"{_I_ZH}(?:从[^，,。；;！!？?\n搬]{{1,8}})?搬(?:到|去|来|回)了?(?![一新那这另])(?![^，,。]{{0,6}}[楼房屋区])"
            rf"(?P<value>[^，,。；;！!？?\n一新个的服集云仓目办]{{2,8}}?)(?=[了，,。；;！!？?\s]|$)"
        ),
    ),
    "job": (
        rf"\bi {_NOW}{_NO}work as (?:an? |the )?{_VALUE}{_END}",
        (
            rf"\bi(?:'m| am|m) {_NOW}{_NO}(?:an?|the) (?P<value>(?:[\w/+#-]{{1,30}} ){{0,4}}?(?:{_ROLES}))"
            r"(?= (?:at|in|for|with|from|and|who|working|based|on)\b|[,.;!()]|$)"
        ),
        (
            rf"(?:^|[，,。；;\s]|我)(?:现在|目前|其实|已经)*{_NO_ZH}是(?:一?[名位])"
            r"(?P<value>[^，,。；;！!？?\n的了]{2,14}?)(?=[了，,。；;！!？?\s]|$)"
        ),
        r"我(?:已经|早就|现在|其实)?(?P<no>不再|不)是(?P<value>[^，,。；;！!？?\n的了]{2,10}?)了(?=[，,。；;！!\s]|$)",
    ),
    "employer": (
        rf"\bi {_NOW}{_NO}work (?:at|for) (?!home|a |an |the |my |it|this|that|you|me|him|her|them){_VALUE}{_END}",
        r"我(?:现在|目前)?在(?P<value>[^，,。；;！!？?\n什么哪家]{2,16}?)(?:工作|上班|任职|就职)(?=[，,。；;！!\s了]|$)",
    ),
    "age": (
        r"\bi(?:'m| am|m) (?P<value>\d{1,2}) ?(?:years old|y/?o\b)|\bi(?:'m| am) (?P<years>\d\d)(?=[.,!]|$| and\b)",
        r"我(?:今年)?(?P<value>\d{1,3}|[一二三四五六七八九十]{2,3})岁",
    ),
    "reply language": (
        rf"\b(?:answer|reply|respond|replies|answers)\b[^,.;?]{{0,24}}? in (?P<value>{_LANGUAGES})\b",
        (
            r"用(?P<value>中文|英文|英语|日语|日文|法语|德语|粤语|普通话)(?:来|跟我|给我)?(?:回答|回复|答复|交流)"
            r"|(?:回答|回复|答复)[^，,。]{0,8}?用(?P<tongue>中文|英文|英语|日语|日文|法语|德语)"
        ),
    ),
}
SLOTS: Final = tuple((slot, re.compile(form)) for slot, forms in _SLOT_FORMS.items() for form in forms)
# Attributes that are named: «my time zone is …», 我的时区是….
NAMED: Final = any_of(
    rf"\bmy (?P<slot>time ?zone|native language|mother tongue|first language|pronouns|employer|e-?mail(?: address)?"
    rf"|birthday|home ?town|address|phone number|shell|editor|favou?rite \w{{1,20}})(?:'s| is"
    rf"| are) (?:now )?{_NO}(?!what |in |too |so ){_VALUE}{_END}",
    r"我的?(?P<slot_zh>时区|母语|邮箱|生日|职业|专业|家乡|老家|电话|地址|公司|职位|编辑器)(?:现在|就)?(?:是|在)"
    r"(?P<value_zh>[^，,。；;！!？?\n什么哪]{1,24}?)(?=[，,。；;！!？?\s]|$)",
)
# Names of one slot.
SAME_SLOT: Final = {
    "time zone": "timezone", "时区": "timezone", "母语": "native language", "mother tongue": "native language",
    "first language": "native language", "邮箱": "email", "e-mail": "email", "email address": "email",
    "e-mail address": "email", "生日": "birthday", "职业": "job", "职位": "job", "公司": "employer",
    "home town": "hometown", "家乡": "hometown", "老家": "hometown", "地址": "address", "电话": "phone number",
    "编辑器": "editor",
}  # fmt: skip
