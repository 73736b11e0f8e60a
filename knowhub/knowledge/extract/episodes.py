"""Find episodes by rules: a tool that failed and then worked, the end of a task, the steps of a procedure."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from knowhub.conversations.messages import Message
from knowhub.conversations.sentences import ParsedMessage, Sentence, is_chinese, iter_plain_lines
from knowhub.core.near_duplicates import has_weight
from knowhub.knowledge.extract.model import CandidateCategory, KnowledgeCandidate
from knowhub.knowledge.model import KnowledgeType

_READ_CHARS: Final = 16_384
_EXCERPT_CHARS: Final = 300
_LEAST_SUBSTANCE: Final = 30
_LEAST_STEPS: Final = 3
_MOST_STEPS: Final = 30
# At most this many messages are between a failure and its remedy.
_MOST_BETWEEN: Final = 6

_ERROR: Final = re.compile(
    r"(?:\b\w*(?:Error|Exception)\b|\berror\b|\bfailed\b|\bfailure\b|\bdenied\b|\bnot found\b|\bno such\b"
    r"|\btimed? ?out\b|\brefused\b|\bfatal\b|\bpanic\b|报错|错误|失败|超时|拒绝|异常|找不到)",
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
# Users must also name a conclusion, because stories have an end, too.
_CONCLUDED: Final = re.compile(
    r"经验|教训|结论|心得|根(?:本原)?因|原因|决定|采用|\b(?:lessons?|conclusion|root cause|takeaway)\b", re.IGNORECASE
)
_BAD_END: Final = re.compile(r"失败|无法|未能|没能|\bfailed\b|\bcould not\b|\bunable\b|\bimpossible\b", re.IGNORECASE)
_PAUSE: Final = re.compile(r"[；;。:：]|, |，")
_PLAN_TITLE: Final = re.compile(
    r"(?:步骤|流程|方法|过程|计划|做法|操作|顺序)[^。\n]{0,12}(?:如下|：|:)?\s*$|(?:步骤|流程|做法|顺序)(?:如下|是"
    r"|为)|^(?:the )?(?:\w+ ){0,4}(?:steps|procedure|process|workflow|checklist|how to)\b.{0,40}:?\s*$",
    re.IGNORECASE,
)
_STEP: Final = re.compile(
    r"^\s*(?:\d{1,2}[.)、．]|第[一二三四五六七八九十]步[：:，,]?|step \d{1,2}[:.)]?|[（(]\d{1,2}[)）])\s*(?=\S)",
    re.IGNORECASE,
)
# A question is neither praise nor blame; «not perfect» is no praise.
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


def find_pitfalls(conversation: Sequence[ParsedMessage]) -> Iterator[KnowledgeCandidate]:
    """Yield failures with their remedy: described in one message, or observed in the answers of one tool."""
    yield from _find_reported(conversation)
    failed: int | None = None
    for number, message in enumerate(heard.message for heard in conversation):
        if not message.is_tool or not message.content:
            continue
        error = _find_error(message)
        if error:
            failed = number
        elif (
            failed is not None
            and conversation[failed].message.name == message.name
            and number - failed <= _MOST_BETWEEN
        ):
            remedy = _find_fix(conversation, failed, number)
            if remedy is not None:
                yield _describe_observed(conversation[failed].message, failed, remedy, number)
            failed = None


def find_outcomes(conversation: Sequence[ParsedMessage]) -> Iterator[KnowledgeCandidate]:
    """Yield the ends of tasks and the conclusions, each with its request."""
    request = ""
    for number, (message, said) in enumerate((heard.message, heard.said) for heard in conversation):
        # Text below a heading «Outcome» is an outcome.
        heading = False
        for sentence in said:
            is_end = (heading or _OUTCOME.match(sentence.text)) and (
                message.is_agent or _CONCLUDED.search(sentence.text)
            )
            if is_end and _is_complete(sentence.text):
                yield _outcome(sentence.text, request, number, message)
            heading = _OUTCOME_HEADING.fullmatch(sentence.text) is not None
        if message.is_user:
            request = _truncate(_join_text(said)) or request


def find_plans(messages: Sequence[Message]) -> Iterator[KnowledgeCandidate]:
    """Yield procedures: a heading, and at least three numbered steps."""
    for number, message in enumerate(messages):
        if message.is_tool:
            continue
        lines = [line for line in iter_plain_lines(message.content[:_READ_CHARS]) if line.strip()]
        for at, line in enumerate(lines):
            steps = _read_steps(lines, at) if _PLAN_TITLE.search(line.strip(" #*")) and not _STEP.match(line) else []
            if len(steps) >= _LEAST_STEPS:
                title = line.strip(" #*:：")
                tags = {"category": CandidateCategory.PLAN.value}
                content = "\n".join([title, *steps])
                yield KnowledgeCandidate(
                    CandidateCategory.PLAN, title, content, (number,), (KnowledgeType.PLAN.value,), tags=tags
                )


def find_feedback(conversation: Sequence[ParsedMessage]) -> Iterator[KnowledgeCandidate]:
    """Yield verdicts of the user: the request, the answer, and whether it helped."""
    request = ""
    for number, (before, now) in enumerate(pairwise(conversation), 1):
        if before.message.is_user:
            request = _truncate(_join_text(before.said))
        verdict, answer = _truncate(_join_text(now.said)), _truncate(_join_text(before.said))
        praised, blamed = _PRAISE.match(verdict), _BLAME.match(verdict)
        is_verdict = before.message.is_agent and now.message.is_user and (praised or blamed)
        if not is_verdict or not request or not has_weight(answer, _LEAST_SUBSTANCE):
            continue
        content = _format_labels(answer, ("做法", "Tried"), ("用户评价", "The user's verdict"), verdict)
        tags = {"category": CandidateCategory.OUTCOME.value, "outcome": "failure" if blamed else "success"}
        types = (KnowledgeType.STRATEGY.value,) if blamed else (KnowledgeType.USECASE.value,)
        yield KnowledgeCandidate(CandidateCategory.OUTCOME, request, content, (number - 1, number), types, tags=tags)


def _find_reported(conversation: Sequence[ParsedMessage]) -> Iterator[KnowledgeCandidate]:
    for number, heard in enumerate(conversation):
        said = [sentence.text for sentence in heard.said]
        for at, text in enumerate(said):
            if not _FAILED_SAID.search(text):
                continue
            # The remedy is in the same sentence or in the next one.
            described = text if _WORKED_SAID.search(text) else " ".join(said[at : at + 2])
            failure, remedy = _FAILED_SAID.search(described), _WORKED_SAID.search(described)
            is_complete = failure is not None and remedy is not None and failure.start() < remedy.end()
            if is_complete and not _UNFINISHED.search(described) and not described.endswith(("?", "？")):
                yield _pitfall(_extract_context(text), described, (number,))
                break


def _find_error(message: Message) -> str:
    """Return the last error line of a tool's answer; empty if there is none."""
    text = message.content[:_READ_CHARS]
    errors = [line for line in text.split("\n") if _ERROR.search(line) and not _NO_ERROR.search(line)]
    # The last error names the cause.
    return " ".join(errors[-1].split())[:_EXCERPT_CHARS] if errors else ""


def _find_fix(conversation: Sequence[ParsedMessage], failed: int, worked: int) -> tuple[int, str] | None:
    """Return the last message of the agent between a failure and a success, if it names a remedy."""
    for number in range(worked - 1, failed, -1):
        heard = conversation[number]
        if heard.message.is_agent and heard.said:
            tells = any(_REMEDY.search(sentence.text) for sentence in heard.said)
            return (number, _truncate(_join_text(heard.said))) if tells else None
    return None


def _describe_observed(message: Message, failed: int, remedy: tuple[int, str], worked: int) -> KnowledgeCandidate:
    error, tool = _find_error(message), message.name
    content = _format_labels(error, ("报错", "Error"), ("之后成功", "It worked after"), remedy[1])
    task = f"{tool}: {error}" if tool else error
    return _pitfall(_truncate(task), content, (failed, remedy[0], worked))


def _pitfall(task: str, content: str, cited: tuple[int, ...]) -> KnowledgeCandidate:
    tags = {"category": CandidateCategory.PITFALL.value}
    return KnowledgeCandidate(CandidateCategory.PITFALL, task, content, cited, (KnowledgeType.TOOL.value,), tags=tags)


def _outcome(text: str, request: str, number: int, message: Message) -> KnowledgeCandidate:
    tags = {"category": CandidateCategory.OUTCOME.value, "outcome": "failure" if _BAD_END.search(text) else "success"}
    is_by_agent = message.is_agent and bool(request)
    # An outcome with its request is a use case; a conclusion alone is experience.
    kind = KnowledgeType.USECASE if is_by_agent and tags["outcome"] == "success" else KnowledgeType.STRATEGY
    return KnowledgeCandidate(
        CandidateCategory.OUTCOME,
        request if is_by_agent else _extract_context(text),
        text,
        (number,),
        (kind.value,),
        tags=tags,
    )


def _is_complete(text: str) -> bool:
    return has_weight(text, _LEAST_SUBSTANCE) and not _UNFINISHED.search(text) and not text.endswith(("?", "？"))


def _read_steps(lines: Sequence[str], at: int) -> list[str]:
    steps: list[str] = []
    for line in lines[at + 1 : at + 1 + _MOST_STEPS]:
        if not _STEP.match(line):
            break
        steps.append(line.strip())
    return steps


def _extract_context(text: str) -> str:
    """Return the beginning of a text, up to the first pause."""
    return _truncate(_PAUSE.split(text, maxsplit=1)[0])[:100] or _truncate(text)[:100]


def _format_labels(first: str, first_label: tuple[str, str], second_label: tuple[str, str], second: str) -> str:
    if is_chinese(second):
        return f"{first_label[0]}：{first}\n{second_label[0]}：{second}"
    return f"{first_label[1]}: {first}\n{second_label[1]}: {second}"


def _join_text(said: Sequence[Sentence]) -> str:
    return " ".join(sentence.text for sentence in said)


def _truncate(text: str) -> str:
    return text if len(text) <= _EXCERPT_CHARS else f"{text[: _EXCERPT_CHARS - 1]}…"
