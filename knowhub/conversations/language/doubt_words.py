"""Words that make of a statement a supposition, a doubt, a jest or the past: choices of a regular expression."""

from typing import Final

SUPPOSE: Final = "suppos(?:e|ing)|imagin(?:e|ing)|pretend|assum(?:e|ing)|let's say"
UNREAL_ZH: Final = "假如|假设|假定|假使|倘若"
IF_ZH: Final = f"如果|要是|若是|万一|{UNREAL_ZH}"
MAYBE: Final = "maybe|perhaps|possibly|might"
MAYBE_ZH: Final = "也许|或许|说不定|没准|兴许|不确定|不一定|没想好"
JEST_ZH: Final = "做梦|说笑|玩笑|说说而已|哈哈|呵呵|嘿嘿"
FICTION: Final = "novel|story|film|movie|game|play|dream"
FICTION_ZH: Final = "小说|故事|游戏|电影|电视剧|剧本|梦"
PAST_ZH: Final = "以前|曾经|原来|从前(?!年)"
