"""What happened in a conversation: a tool that failed and then worked, how a task ended, the steps of a procedure.

Found by rules over the messages of agents and tools (KS-041, KS-042, KS-044); what a plan or an outcome says is taken
from whoever says it.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from knowhub.core.messages import Message
from knowhub.core.shingles import weight
from knowhub.knowledge.extraction_model import Candidate, Category
from knowhub.knowledge.extraction_rules import is_chinese
from knowhub.knowledge.model import KnowledgeType
from knowhub.knowledge.spoken import Heard, Sentence, bare_lines

_READ_CHARS: Final = 16_384
_EXCERPT_CHARS: Final = 300
_LEAST_SUBSTANCE: Final = 30
_LEAST_STEPS: Final = 3
_MOST_STEPS: Final = 30
# A remedy stands near what it is for.
_MOST_BETWEEN: Final = 6

_ERROR_LINE: Final = re.compile(
    r"(?m)^.*(?:\b\w*(?:Error|Exception)\b|\berror\b|\bfailed\b|\bfailure\b|\bdenied\b|\bnot found\b|\bno such\b"
    r"|\btimed? ?out\b|\brefused\b|\bfatal\b|\bpanic\b|报错|错误|失败|超时|拒绝|异常|找不到).*$",
    re.IGNORECASE,
)
_NO_ERROR: Final = re.compile(
    r"\b(?:0|no|without) (?:errors?|failures?)\b|\b0 failed\b|没有(?:错误|报错|失败)|无错误", re.IGNORECASE
)
_FAILED_SAID: Final = re.compile(
    r"\b(?:fail(?:s|ed|ing)|error(?:ed|s)?|broke|crash(?:es|ed)|refused|denied|rejected|timed out|did(?:n't"
    r"| not) work|does(?:n't| not) work)\b|报错|失败|出错|超时|不工作|不行|被拒|崩溃|异常|无法",
    re.IGNORECASE,
)
_WORKED_SAID: Final = re.compile(
    r"\b(?:work(?:ed|s) (?:after|once|when|with|by|fine after)|(?:that |which |this )?(?:fixed|solved"
    r"|resolved) (?:it|this|the)|fixed (?:it )?by|solved by|resolved by|the fix (?:was|is)|succeeded (?:after|once"
    r"|with|by)"
    r"|(?:passes|passed|runs|ran) (?:after|once|now))\b"
    r"|(?:改用|改成|改为|换成|换用|换为|加上|设置|安装|升级|降级|增加|去掉|删除|重启|使用)[^。！？]{1,60}(?:后|之后"
    r"|以后|就)[^。！？]{0,10}(?:成功|正常|解决|好了|通过|可以了|恢复)"
    r"|解决(?:办法|方法|方案)(?:是|：|:)|(?:后|之后|就)(?:成功了?|正常了?|解决了?|好了|通过了?|可以了)",
    re.IGNORECASE,
)
_REMEDY: Final = re.compile(
    r"\b(?:instead|install|switch|use|using|set|add|because|need|needs|needed|require[sd]?|missing|change|upgrade"
    r"|downgrade|pass|increase|with a|retry with|disable|enable|export)\b"
    r"|改用|改成|换成|安装|需要|加上|设置|升级|降级|因为|原因|缺少|使用|增加|关闭|开启|改为|换用",
    re.IGNORECASE,
)
_UNFINISHED: Final = re.compile(
    r"\b(?:will|shall|going to|let me|plan to|next,? i|i'll|would|should be able|don't know|do not know|not sure"
    r"|once (?:all|the|it|this) \w+ (?:have|has|is|are)|try to)\b"
    r"|接下来|将会|我会|打算|准备|计划|不知道|不确定|稍后|等.{1,10}再|可能|也许",
    re.IGNORECASE,
)
_OUTCOME: Final = re.compile(
    r"^(?:✅\s*)?(?:任务(?:已经?|总算)?(?:完成|成功|失败)|已完成|完成了?[：:，,]|最终|最后(?:通过|发现|确认|采用"
    r"|得出)|结论(?:是|为|：|:)|总结(?:一下)?(?:：|:)|根(?:本原)?因(?:是|为|：|:)|问题(?:的)?(?:原因|根源)(?:是|在于)"
    r"|(?:这次的?|本次的?)?(?:经验|教训|心得)(?:是|教训(?:是|：)|：|:))"
    r"|^(?:✅\s*)?(?:task (?:is )?(?:now )?(?:completed?|done|finished|failed|succeeded)|(?:in )?conclusion"
    r"|the (?:root )?cause (?:was|turned out)|root cause|lessons? learned|key takeaway|takeaway|outcome"
    r"|final result|in the end,?"
    r"|we (?:learned|found|concluded) that|it turned out that|the task (?:failed|succeeded|is complete))\b",
    re.IGNORECASE,
)
_OUTCOME_HEADING: Final = re.compile(
    r"(?:outcome|result|final result|conclusion|root cause|lessons? learned|key takeaways?|takeaways?"
    r"|结果|最终结果|结论|根因|根本原因|经验教训|经验|教训)[:：]?",
    re.IGNORECASE,
)
# A user who tells a story says «in the end» too.
_CONCLUDED: Final = re.compile(
    r"经验|教训|结论|心得|根(?:本原)?因|原因|决定|采用|\b(?:lessons?|conclusion|root cause|takeaway)\b", re.IGNORECASE
)
_BAD_END: Final = re.compile(r"失败|无法|未能|没能|\bfailed\b|\bcould not\b|\bunable\b|\bimpossible\b", re.IGNORECASE)
_PLAN_TITLE: Final = re.compile(
    r"(?:步骤|流程|方法|过程|计划|做法|操作|顺序)[^。\n]{0,12}(?:如下|：|:)?\s*$|(?:步骤|流程|做法|顺序)(?:如下|是"
    r"|为)|^(?:the )?(?:\w+ ){0,4}(?:steps|procedure|process|workflow|checklist|how to)\b.{0,40}:?\s*$",
    re.IGNORECASE,
)
_STEP: Final = re.compile(
    r"^\s*(?:\d{1,2}[.)、．]|第[一二三四五六七八九十]步[：:，,]?|step \d{1,2}[:.)]?|[（(]\d{1,2}[)）])\s*(?=\S)",
    re.IGNORECASE,
)
# Of a question nothing is praised or blamed; «not perfect» is no praise.
_NO_QUESTION: Final = r"(?!.*(?:吗|[?？]))"
_NOT_DENIED: Final = (
    r"(?!.{0,30}(?:\b(?:not|never|nothing|none|hardly|barely|no longer|if|should|would|could|can|make|please|how)\b"
    r"|n't\b|不太|不怎么|不是[很太]|不那么|没那么|并不|不算|不完美|还没|没有|没能|如果|要是))"
)
_INTO_EN: Final = r"(?:(?:ok|okay|yes|yep|no|nope|wow|hmm|great|thanks|thank you|sorry)[,.!:]* )*"
_IT_EN: Final = r"(?:it|that|this|everything|(?:your|the) \w+)"
_VERY_EN: Final = r"(?:(?:very|really|so|super|extremely|absolutely|just|exactly) )*"
_PRAISE: Final = re.compile(
    rf"^{_NO_QUESTION}{_NOT_DENIED}(?:.{{0,12}}(?:很有用|有帮助|太好了|解决了|好用|没问题了|管用|成功了|完美|跑通了|搞定了"
    r"|[就正]是我(?:想)?要的|符合我的(?:要求|需要|预期)|(?:答|说|写|讲|做)得(?:很|真|太|非常|挺)?(?:好|对|棒|清楚|到位))"
    r"|(?:很|真|太|非常|挺|特别|超|相当)(?:好|棒|赞|不错|满意|清楚|到位|厉害|专业|给力)(?:了|的|啊|[！!，,。~]|$)|(?:不错|赞|点赞|满意)(?:[！!，,。~]|$)"
    r"|[👍💯🎉👏]"
    rf"|{_INTO_EN}{_IT_EN}(?:'s| is| was) {_VERY_EN}(?:helpful|useful|great|perfect|excellent|brilliant|correct|spot on"
    rf"|what i (?:want|need|meant|asked|was looking))"
    rf"|{_INTO_EN}{_VERY_EN}(?:helpful|perfect|excellent|brilliant|awesome|amazing|fantastic)\b"
    rf"|{_INTO_EN}(?:great|good|nice|excellent|amazing|well) (?:job|work|answer|done|explanation|solution)\b"
    r"|.{0,30}\b(?:works(?! (?:as|at|for|in an?)\b)|worked(?! (?:as|at|for|in an?)\b)|that helped|very helpful"
    r"|solved (?:it|my)|fixed (?:it|my)|perfect|exactly what i|did the trick)\b)",
    re.IGNORECASE,
)
_BLAME: Final = re.compile(
    rf"^{_NO_QUESTION}(?!我(?:说|写|弄|搞|打|输|记)?错|不行(?:就|的话)|如果|要是|if\b)"
    r"(?:.{0,12}(?:没用|没什么用|没有用|不(?:太|怎么)?管用|没有?帮助|不(?:太|怎么)?好用|不行|没有?解决|没有?成功|不能用|用不了|帮倒忙|误导"
    r"|还是(?:报错|失败|不)|失败了|跑不[通起]|是错的|[答搞弄理]错|不是我(?:想)?要的|不符合|不满意|太差|很差|答非所问)|👎"
    rf"|{_INTO_EN}(?:{_IT_EN}|there)(?:'s| is| was) {_VERY_EN}(?:wrong|incorrect|broken|terrible|nonsense|bad)\b"
    rf"|{_INTO_EN}(?:{_IT_EN} )?still (?:fails|failing|broken|wrong|crash|not|does|get|the same)"
    rf"|{_INTO_EN}(?:{_IT_EN} )?(?:never worked|failed|made it worse|makes no sense)\b"
    r"|.{0,30}\b(?:doesn't work|does not work|didn't work|did not work|didn't help|did not help|useless|not helpful"
    r"|unhelpful|misleading|not what i|wrong answer|nothing works)\b)",
    re.IGNORECASE,
)


def pitfalls(conversation: Sequence[Heard]) -> Iterator[Candidate]:
    """Yield what failed with what made it work: told in one message, or seen in the answers of one tool."""
    yield from _told_pitfalls(conversation)
    failed: int | None = None
    for number, message in enumerate(one.message for one in conversation):
        if not message.is_tool or not message.content:
            continue
        error = _error_in(message)
        if error:
            failed = number
        elif (
            failed is not None
            and conversation[failed].message.name == message.name
            and number - failed <= _MOST_BETWEEN
        ):
            remedy = _remedy_between(conversation, failed, number)
            if remedy is not None:
                yield _seen_pitfall(conversation[failed].message, failed, remedy, number)
            failed = None


def outcomes(conversation: Sequence[Heard]) -> Iterator[Candidate]:
    """Yield how tasks ended and what was concluded, each with the request that it belongs to."""
    asked = ""
    for number, (message, said) in enumerate((one.message, one.said) for one in conversation):
        # What stands below a heading «Outcome» is one.
        heading = False
        for sentence in said:
            is_end = (heading or _OUTCOME.match(sentence.text)) and (
                message.is_agent or _CONCLUDED.search(sentence.text)
            )
            if is_end and _is_substantial(sentence.text):
                yield _outcome(sentence.text, asked, number, message)
            heading = _OUTCOME_HEADING.fullmatch(sentence.text) is not None
        if message.is_user:
            asked = _excerpt(_joined_text(said)) or asked


def plans(messages: Sequence[Message]) -> Iterator[Candidate]:
    """Yield procedures: a heading that says so, and three steps or more in their order."""
    for number, message in enumerate(messages):
        if message.is_tool:
            continue
        lines = [line for line in bare_lines(message.content[:_READ_CHARS]) if line.strip()]
        for at, line in enumerate(lines):
            steps = _steps_after(lines, at) if _PLAN_TITLE.search(line.strip(" #*")) and not _STEP.match(line) else []
            if len(steps) >= _LEAST_STEPS:
                title = line.strip(" #*:：")
                tags = {"category": Category.PLAN.value}
                content = "\n".join([title, *steps])
                yield Candidate(Category.PLAN, title, content, (number,), (KnowledgeType.PLAN.value,), tags=tags)


def verdicts(conversation: Sequence[Heard]) -> Iterator[Candidate]:
    """Yield what the user judged: the request, what was answered, and whether that helped (KS-043)."""
    asked = ""
    for number, (before, now) in enumerate(pairwise(conversation), 1):
        if before.message.is_user:
            asked = _excerpt(_joined_text(before.said))
        verdict, answer = _excerpt(_joined_text(now.said)), _excerpt(_joined_text(before.said))
        praised, blamed = _PRAISE.match(verdict), _BLAME.match(verdict)
        is_verdict = before.message.is_agent and now.message.is_user and (praised or blamed)
        if not is_verdict or not asked or weight(answer) < _LEAST_SUBSTANCE:
            continue
        content = _labelled(answer, ("做法", "Tried"), ("用户评价", "The user's verdict"), verdict)
        tags = {"category": Category.OUTCOME.value, "outcome": "failure" if blamed else "success"}
        types = (KnowledgeType.STRATEGY.value,) if blamed else (KnowledgeType.USECASE.value,)
        yield Candidate(Category.OUTCOME, asked, content, (number - 1, number), types, tags=tags)


def _told_pitfalls(conversation: Sequence[Heard]) -> Iterator[Candidate]:
    for number, one in enumerate(conversation):
        said = [sentence.text for sentence in one.said]
        for at, text in enumerate(said):
            if not _FAILED_SAID.search(text):
                continue
            # The remedy stands in the same sentence or in the next one.
            told = text if _WORKED_SAID.search(text) else " ".join(said[at : at + 2])
            failure, remedy = _FAILED_SAID.search(told), _WORKED_SAID.search(told)
            is_told = failure is not None and remedy is not None and failure.start() < remedy.end()
            if is_told and not _UNFINISHED.search(told) and not told.endswith(("?", "？")):
                yield _pitfall(_scene(text), told, (number,))
                break


def _error_in(message: Message) -> str:
    """Return the line of a tool's answer that tells of a failure; empty where none does."""
    text = message.content[:_READ_CHARS]
    errors = [line for line in _ERROR_LINE.findall(text) if not _NO_ERROR.search(line)]
    # The last one says what it was; what stands before it leads there.
    return " ".join(errors[-1].split())[:_EXCERPT_CHARS] if errors else ""


def _remedy_between(conversation: Sequence[Heard], failed: int, worked: int) -> tuple[int, str] | None:
    """Return the last thing that the agent said between a failure and a success, if it tells a remedy."""
    for number in range(worked - 1, failed, -1):
        one = conversation[number]
        if one.message.is_agent and one.said:
            tells = any(_REMEDY.search(sentence.text) for sentence in one.said)
            return (number, _excerpt(_joined_text(one.said))) if tells else None
    return None


def _seen_pitfall(message: Message, failed: int, remedy: tuple[int, str], worked: int) -> Candidate:
    error, tool = _error_in(message), message.name
    content = _labelled(error, ("报错", "Error"), ("之后成功", "It worked after"), remedy[1])
    task = f"{tool}: {error}" if tool else error
    return _pitfall(_excerpt(task), content, (failed, remedy[0], worked))


def _pitfall(task: str, content: str, cited: tuple[int, ...]) -> Candidate:
    tags = {"category": Category.PITFALL.value}
    return Candidate(Category.PITFALL, task, content, cited, (KnowledgeType.TOOL.value,), tags=tags)


def _outcome(text: str, asked: str, number: int, message: Message) -> Candidate:
    tags = {"category": Category.OUTCOME.value, "outcome": "failure" if _BAD_END.search(text) else "success"}
    told_by_agent = message.is_agent and bool(asked)
    # With the request it is a case of use; a conclusion alone is experience.
    kind = KnowledgeType.USECASE if told_by_agent and tags["outcome"] == "success" else KnowledgeType.STRATEGY
    return Candidate(
        Category.OUTCOME, asked if told_by_agent else _scene(text), text, (number,), (kind.value,), tags=tags
    )


def _is_substantial(text: str) -> bool:
    return weight(text) >= _LEAST_SUBSTANCE and not _UNFINISHED.search(text) and not text.endswith(("?", "？"))


def _steps_after(lines: Sequence[str], at: int) -> list[str]:
    steps: list[str] = []
    for line in lines[at + 1 : at + 1 + _MOST_STEPS]:
        if not _STEP.match(line):
            break
        steps.append(line.strip())
    return steps


def _scene(text: str) -> str:
    """Return the beginning of a text, up to where it goes on after a pause."""
    return _excerpt(re.split(r"[；;。:：]|, |，", text, maxsplit=1)[0])[:100] or _excerpt(text)[:100]


def _labelled(first: str, first_label: tuple[str, str], second_label: tuple[str, str], second: str) -> str:
    if is_chinese(second):
        return f"{first_label[0]}：{first}\n{second_label[0]}：{second}"
    return f"{first_label[1]}: {first}\n{second_label[1]}: {second}"


def _joined_text(said: Sequence[Sentence]) -> str:
    return " ".join(one.text for one in said)


def _excerpt(text: str) -> str:
    return text if len(text) <= _EXCERPT_CHARS else f"{text[: _EXCERPT_CHARS - 1]}…"
