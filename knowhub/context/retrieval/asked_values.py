"""Questions for a single-valued fact about the speaker: «where do I live», 我叫什么名字. The profile answers them."""

from typing import Final

from knowhub.context.model import NODES
from knowhub.context.queries import find_profile
from knowhub.conversations.statements.forms import NAMED_SLOTS, compile_any
from knowhub.conversations.statements.reader import read_values
from knowhub.core.errors import InvalidInput
from knowhub.core.operation import View
from knowhub.core.request_context import RequestContext

_END: Final = r"(?=[\s?？!！.。呢啊吗呀]*$)"
_WORK: Final = ("employer", "job")
_QUESTIONS: Final = (
    (
        ("home",),
        compile_any(
            r"\bwhere(?:abouts)? (?:do|am) i (?:\w{1,20} )?(?:live|living|based|located)\b|\bwhereabouts am i\b",
            r"\b(?:what|which) (?:city|town|village|country|place) (?:do i live|am i (?:living|based)|is my home)\b",
            r"\bwhere(?:'s| is) my home\b",
            r"我(?:现在|目前|是)?(?:家)?住在?(?:哪|什么地方)|我的?家(?:现在)?在(?:哪|什么)",
        ),
    ),
    (
        ("name",),
        compile_any(
            rf"\bwho am i{_END}|\bwhat(?:'s| is) my (?:full |first |last |real )?name\b",
            rf"我(?:现在)?叫(?:什么|啥)(?:名字?)?{_END}|我的?名字(?:是|叫)?(?:什么|啥)|我是谁{_END}",
        ),
    ),
    (
        _WORK,
        compile_any(
            r"\bwhere do i work\b|\bwho do i work for\b|\bwhat do i do for (?:a living|work)\b",
            r"\bwhat(?:'s| is) my (?:job|occupation|profession)\b",
            r"我(?:现在|目前)?在哪[^，,。？?]{0,4}(?:工作|上班|任职)|我是?(?:做|干)(?:什么|啥)(?:工作)?的|我做什么工作"
            r"|我的工作是什么",
        ),
    ),
    (("age",), compile_any(r"\bhow old am i\b|\bwhat(?:'s| is) my age\b", r"我(?:今年|现在)?(?:多大|几岁|多少岁)")),
    (("birthday",), compile_any(r"\bwhen was i born\b", r"我(?:是)?(?:哪天|几月几号|什么时候)(?:出生|生日)")),
)
_NAMES: Final = "|".join(NAMED_SLOTS)
_NAMED: Final = compile_any(
    rf"\b(?:what|where|when)(?:'s| is| are) my (?P<slot>{_NAMES})\b",
    rf"我的?(?P<slot_zh>{_NAMES})(?:号码)?(?:是|在|叫)?(?:什么|哪|几|多少|啥)",
)


def find_asked_slots(question: str) -> set[str]:
    """Return the single-valued facts that a question asks for."""
    text = question.lower().replace("’", "'")
    named = (match["slot"] or match["slot_zh"] for match in _NAMED.finditer(text))
    asked = {slot for slots, form in _QUESTIONS if form.search(text) for slot in slots}
    return asked | {NAMED_SLOTS[slot] for slot in named}


def is_profile_asked_for(view: View, ctx: RequestContext, question: str) -> bool:
    """Return whether the caller's profile gives a single-valued fact that a question asks for."""
    asked = find_asked_slots(question)
    try:
        summary = find_profile(view, ctx) if asked else None
    except InvalidInput:
        # A caller without a user and an agent has no profile.
        return False
    row = view.get(NODES, summary.uri) if summary is not None else None
    # The content has a line for each statement that holds.
    lines = str(row["content"]).split("\n") if row is not None else ()
    return any(slot in asked for line in lines for slot, _ in read_values(line)[0])
