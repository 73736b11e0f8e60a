"""From messages to candidates by rules alone: which rules hear whom, for which trigger (KS-040…045)."""

from collections.abc import Iterator, Sequence

from knowhub.core.messages import Message
from knowhub.knowledge import episodes, recalled
from knowhub.knowledge.extraction_model import Candidate, Fold, Trigger
from knowhub.knowledge.extraction_rules import said_by_user
from knowhub.knowledge.spoken import heard


def by_rules(messages: Sequence[Message], trigger: Trigger, fold: Fold = str) -> list[Candidate]:
    """Return what the rules find, in the order of the conversation, what is said twice once.

    What the user says is heard at every trigger (主动表达 comes first, KS-052); what an agent and its tools did when a
    task is done and when messages are compacted, and a user's verdict when feedback is given.
    """
    spoken = [Message("tool", "") if recalled.is_own_answer(one) else one for one in messages]
    found = sorted(_found(spoken, trigger, fold), key=lambda one: one.cited[-1])
    return list({(one.category, one.content): one for one in reversed(found)}.values())[::-1]


def _found(messages: Sequence[Message], trigger: Trigger, fold: Fold) -> Iterator[Candidate]:
    conversation = heard(messages, fold)
    answers = False
    for number, (message, said) in enumerate((one.message, one.said) for one in conversation):
        if message.is_user:
            yield from said_by_user(number, said, answers=answers)
        answers = answers or message.is_agent
    if trigger is Trigger.USER_FEEDBACK:
        yield from episodes.verdicts(conversation)
    if trigger in (Trigger.TASK_COMPLETION, Trigger.COMPACTION):
        told = list(episodes.pitfalls(conversation))
        yield from told
        # What was told as a failure with its remedy is not told again as an end.
        texts = {one.content for one in told}
        yield from (one for one in episodes.outcomes(conversation) if one.content not in texts)
        yield from episodes.plans(messages)
