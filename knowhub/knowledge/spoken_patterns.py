"""How people say what lasts — preferences, habits, who they are, what must hold — in Chinese and English.

Every form is tried on a sentence in lower case whose quotations are masked (`spoken.Sentence.bare`). They ask for the
first person, for an order that lasts, or for the modality of a requirement; a plain order (请写…, "write a …") is for
now only, and nothing to keep.
"""

from typing import Final

from knowhub.knowledge import spoken_en as en
from knowhub.knowledge import spoken_zh as zh
from knowhub.knowledge.spoken_forms import Forms

PREFERENCE: Final = Forms(zh.PREFERENCE, en.PREFERENCE, zh.PREFERENCE_HINTS, en.PREFERENCE_HINTS)
HABIT: Final = Forms(zh.HABIT, en.HABIT, zh.HABIT_HINTS, en.HABIT_HINTS)
BACKGROUND: Final = Forms(zh.BACKGROUND, en.BACKGROUND, zh.BACKGROUND_HINTS, en.BACKGROUND_HINTS)
CONSTRAINT: Final = Forms(zh.CONSTRAINT, en.CONSTRAINT, zh.CONSTRAINT_HINTS, en.CONSTRAINT_HINTS)
DEFINITION: Final = Forms(zh.DEFINITION, en.DEFINITION, zh.DEFINITION_HINTS, en.DEFINITION_HINTS)
CORRECTION_START: Final = Forms(zh.CORRECTION_START, en.CORRECTION_START)
CORRECTION: Final = Forms(zh.CORRECTION, en.CORRECTION)
NOT_X_BUT_Y: Final = Forms(zh.NOT_X_BUT_Y, en.NOT_X_BUT_Y)
REMEMBER: Final = Forms(zh.REMEMBER, en.REMEMBER)

# What makes a sentence say nothing that lasts: it asks, supposes, hedges, denies, tells of once or of others.
QUESTION: Final = Forms(zh.QUESTION, en.QUESTION)
POLITE_REQUEST: Final = Forms(zh.POLITE_REQUEST, en.POLITE_REQUEST)
EXAMPLE: Final = Forms(zh.EXAMPLE, en.EXAMPLE)
HEDGE: Final = Forms(zh.HEDGE, en.HEDGE)
NOT_SO: Final = Forms(zh.NOT_SO, en.NOT_SO)
PAST: Final = Forms(zh.PAST, en.PAST)
PASSING: Final = Forms(zh.PASSING, en.PASSING)
REPORTED: Final = Forms(zh.REPORTED, en.REPORTED)
MADE_TO_ORDER: Final = Forms(zh.MADE_TO_ORDER, en.MADE_TO_ORDER)
GENERAL: Final = Forms(zh.GENERAL, en.GENERAL)
HYPOTHETICAL: Final = Forms(zh.HYPOTHETICAL, en.HYPOTHETICAL)
# What the speaker wants nobody to keep: what the sentence says, or all of the message.
PRIVATE: Final = Forms(zh.PRIVATE, en.PRIVATE)
PRIVATE_ALL: Final = Forms(zh.PRIVATE_ALL, en.PRIVATE_ALL)
