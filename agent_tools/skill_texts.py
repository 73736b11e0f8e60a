"""Skills: guides in Markdown that a host puts into a prompt when they are needed (seed 003, 调研 Skill)."""

from importlib.resources import files


def load_skill(name: str) -> str:
    """Return the text of a skill, such as `research`. Raises ValueError that names those there are."""
    folder = files("agent_tools") / "skills"
    texts = {one.name.removesuffix(".md"): one for one in folder.iterdir() if one.name.endswith(".md")}
    if name not in texts:
        raise ValueError(f"there is no skill {name!r}; there are: {', '.join(sorted(texts))}")
    return texts[name].read_text(encoding="utf-8")
