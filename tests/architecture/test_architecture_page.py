"""docs/explanation/architecture.md compared with the tree: its folders, and its layers."""

import re
import tomllib

from tests.architecture.test_docs import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
FOLDER = re.compile(r"`((?:knowhub|agent_tools)/[\w/]*)`")
FILE = re.compile(r"`(knowhub/\w+\.py)`")
BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)


def list_table_rows(text: str) -> str:
    """Return the lines of the page that are rows of a table."""
    return "\n".join(line for line in text.splitlines() if line.startswith("|"))


def existing_folders() -> set[str]:
    packages = {path.parent for name in ("knowhub", "agent_tools") for path in (ROOT / name).rglob("*.py")}
    folders = {f"{path.relative_to(ROOT).as_posix()}/" for path in packages}
    # Parts of agent_tools are described in docs/reference/agent-tools.md.
    return {folder for folder in folders if folder == "agent_tools/" or folder.startswith("knowhub/")} - {"knowhub/"}


def contract_layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [layers] = [contract["layers"] for contract in contracts if contract.get("layers", [""])[0] == "__main__"]
    return [str(layer) for layer in layers]


def read_layers(text: str) -> list[str]:
    [block] = BLOCK.findall(text)
    return [layer.strip() for layer in " ".join(block.split()).split(">")]


def test_every_folder_has_a_row_and_every_row_a_folder() -> None:
    assert set(FOLDER.findall(list_table_rows(PAGE.read_text(encoding="utf-8")))) == existing_folders()


def test_every_module_beside_the_folders_is_named() -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "knowhub").glob("*.py")} - {"knowhub/__init__.py"}

    assert set(FILE.findall(list_table_rows(PAGE.read_text(encoding="utf-8")))) == modules


def test_the_layers_are_those_of_the_import_contract() -> None:
    assert read_layers(PAGE.read_text(encoding="utf-8")) == contract_layers()


def test_a_missing_folder_or_layer_is_reported() -> None:
    page = "| `knowhub/core/` | x |\n\n`knowhub/web/`\n\n```\ncli > stores | search\n  > core\n```\n"

    assert set(FOLDER.findall(list_table_rows(page))) == {"knowhub/core/"}
    assert read_layers(page) == ["cli", "stores | search", "core"]
