"""How well rules find what a labelled corpus says is there."""

from dataclasses import dataclass


@dataclass
class Score:
    """What was found and is there, was found and is not, and is there and was not found."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong)

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed)
