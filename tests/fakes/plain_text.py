"""How names are read in tests of the tree: lower case, letters, digits and `+#` only; two names have pinyin."""

_PINYIN = {"中文": ["zhongwen", "zw"], "算法": ["suanfa", "sf"]}


class PlainText:
    """Implements `KeywordText` with no dictionary."""

    def load(self) -> None:
        """There is no dictionary to load."""

    def name_keys(self, text: str) -> list[str]:
        name_key = "".join(char for char in text.lower() if char.isalnum() or char in "+#")
        return [name_key] if name_key else []

    def pinyin(self, text: str) -> list[str]:
        return _PINYIN.get(text, [])

    def spellings(self, text: str) -> list[str]:
        return self.pinyin(text)[:1]

    def words(self, text: str) -> list[str]:
        return list(text)

    def terms(self, text: str) -> list[str]:
        return list(dict.fromkeys(text.lower().split()))
