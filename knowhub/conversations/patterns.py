"""Patterns for lasting statements (preferences, habits, background, constraints) in Chinese and English.

They match a lower-case sentence with masked quotations (`sentences.Sentence.bare`). They need a first person, a lasting
order, or the modality of a requirement. A plain order (请写…, "write a …") holds only once and is not matched.
"""

from typing import Final

from knowhub.conversations import patterns_en as en
from knowhub.conversations import patterns_zh as zh
from knowhub.conversations.language_patterns import LanguagePatterns

PREFERENCE: Final = LanguagePatterns(zh.PREFERENCE, en.PREFERENCE, zh.PREFERENCE_HINTS, en.PREFERENCE_HINTS)
HABIT: Final = LanguagePatterns(zh.HABIT, en.HABIT, zh.HABIT_HINTS, en.HABIT_HINTS)
BACKGROUND: Final = LanguagePatterns(zh.BACKGROUND, en.BACKGROUND, zh.BACKGROUND_HINTS, en.BACKGROUND_HINTS)
CONSTRAINT: Final = LanguagePatterns(zh.CONSTRAINT, en.CONSTRAINT, zh.CONSTRAINT_HINTS, en.CONSTRAINT_HINTS)
DEFINITION: Final = LanguagePatterns(zh.DEFINITION, en.DEFINITION, zh.DEFINITION_HINTS, en.DEFINITION_HINTS)
CORRECTION_START: Final = LanguagePatterns(zh.CORRECTION_START, en.CORRECTION_START)
CORRECTION: Final = LanguagePatterns(zh.CORRECTION, en.CORRECTION)
NOT_X_BUT_Y: Final = LanguagePatterns(zh.NOT_X_BUT_Y, en.NOT_X_BUT_Y)
REMEMBER: Final = LanguagePatterns(zh.REMEMBER, en.REMEMBER)

# Sentences that state nothing lasting: questions, hypotheses, hedges, denials, the past, words of others.
QUESTION: Final = LanguagePatterns(zh.QUESTION, en.QUESTION)
POLITE_REQUEST: Final = LanguagePatterns(zh.POLITE_REQUEST, en.POLITE_REQUEST)
EXAMPLE: Final = LanguagePatterns(zh.EXAMPLE, en.EXAMPLE)
HEDGE: Final = LanguagePatterns(zh.HEDGE, en.HEDGE)
NOT_SO: Final = LanguagePatterns(zh.NOT_SO, en.NOT_SO)
PAST: Final = LanguagePatterns(zh.PAST, en.PAST)
PASSING: Final = LanguagePatterns(zh.PASSING, en.PASSING)
REPORTED: Final = LanguagePatterns(zh.REPORTED, en.REPORTED)
MADE_TO_ORDER: Final = LanguagePatterns(zh.MADE_TO_ORDER, en.MADE_TO_ORDER)
GENERAL: Final = LanguagePatterns(zh.GENERAL, en.GENERAL)
HYPOTHETICAL: Final = LanguagePatterns(zh.HYPOTHETICAL, en.HYPOTHETICAL)
# The speaker asks to forget the sentence, or the whole message.
PRIVATE: Final = LanguagePatterns(zh.PRIVATE, en.PRIVATE)
PRIVATE_ALL: Final = LanguagePatterns(zh.PRIVATE_ALL, en.PRIVATE_ALL)
