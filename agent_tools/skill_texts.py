"""Skills: guides in Markdown that a host adds to a prompt."""

from importlib.resources import files


def load_skill(name: str) -> str:
    """Return the text of a skill, such as `research`. Raises ValueError with the names of the skills."""
    folder = files("agent_tools") / "skills"
    texts = {file.name.removesuffix(".md"): file for file in folder.iterdir() if file.name.endswith(".md")}
    if name not in texts:
        raise ValueError(f"there is no skill {name!r}; there are: {', '.join(sorted(texts))}")
    return texts[name].read_text(encoding="utf-8")
