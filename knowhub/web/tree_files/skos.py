"""Keywords as SKOS in RDF/XML: each is a concept with its names, its definition and the concept above it."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from enum import StrEnum
from io import BytesIO
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from knowhub.core.clock import free_items
from knowhub.core.errors import FieldError, InvalidInput
from knowhub.keywords.exchange import ExportedKeyword
from knowhub.keywords.model import Dropped
from knowhub.web.tree_files.tables import sort_by_parent

_RDF: Final = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_SKOS: Final = "{http://www.w3.org/2004/02/skos/core#}"
_LABEL: Final = "{http://www.w3.org/2000/01/rdf-schema#}label"
_LANGUAGE: Final = "{http://www.w3.org/XML/1998/namespace}lang"
_URN: Final = "urn:uuid:"
# No file of a person or a program nests concepts deeper.
_MAX_DEPTH: Final = 64
_MAX_NAMED: Final = 100
# The longest text of the API is as long.
_MAX_UNBROKEN: Final = 2 * 1024 * 1024
# The name of a concept with labels in several languages.
_LANGUAGES: Final = ("", "zh", "en")

SKOS_BEGIN: Final = f"""<?xml version="1.0" encoding="UTF-8"?>
<rdf:RDF xmlns:rdf="{_RDF[1:-1]}" xmlns:skos="{_SKOS[1:-1]}">
<skos:ConceptScheme rdf:about="urn:knowhub:keywords"/>
"""
SKOS_END: Final = "</rdf:RDF>\n"
# A keyword has one description: a definition, else a note.
_DESCRIPTIONS: Final = (f"{_SKOS}definition", f"{_SKOS}scopeNote")
_NAMES: Final = (f"{_SKOS}prefLabel", _LABEL)
_LABELS: Final = (*_NAMES, f"{_SKOS}altLabel", f"{_SKOS}hiddenLabel")
_TEXTS: Final = frozenset((*_DESCRIPTIONS, *_LABELS))
# All of a file is one tree, so that these say nothing more unless they name several schemes.
_IN_SCHEME: Final = f"{_SKOS}inScheme"
_OF_SCHEMES: Final = frozenset((_IN_SCHEME, f"{_SKOS}topConceptOf"))
_TYPES: Final = frozenset(f"{_SKOS[1:-1]}{name}" for name in ("Concept", "ConceptScheme"))
_BROADER: Final = f"{_SKOS}broader"
_NARROWER: Final = f"{_SKOS}narrower"
_HAS_TOP: Final = f"{_SKOS}hasTopConcept"
_MAX_PROPERTIES: Final = 20
# XML has no way to write these.
_UNWRITABLE: Final = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535))


class DropReason(StrEnum):
    """Why a part of a document is left out."""

    NO_PLACE = "no_place"
    NOT_IN_FILE = "not_in_file"


def render_concept(keyword: ExportedKeyword) -> str:
    """Return a keyword as a concept: prefLabel, altLabel, definition, and broader or topConceptOf."""
    row, parent_id = keyword.row, keyword.parent_id
    texts = [("prefLabel", row["name"]), *(("altLabel", alias) for alias in row["aliases"])]
    texts += [("definition", row["description"])] if row["description"] else []
    above = ("topConceptOf", "urn:knowhub:keywords") if parent_id is None else ("broader", _URN + parent_id)
    return (
        f"<skos:Concept rdf:about={quoteattr(_URN + row['id'])}>\n"
        + "".join(_render_text(*text) for text in texts)
        + f"  <skos:{above[0]} rdf:resource={quoteattr(above[1])}/>\n</skos:Concept>\n"
    )


def parse_skos(document: bytes) -> tuple[list[tuple[int, dict[str, Any]]], Dropped]:
    """Return the concepts of a document, numbered in their order, each after the concept that it is below.

    The second value counts by property what a keyword has no place for (`no_place`), such as `skos:related`, and the
    concepts that are named, but not in the document (`not_in_file`).

    The label without a language is the name, else the Chinese, the English or the first one; all other labels are
    aliases. Raises InvalidInput for broken XML, declared entities, concepts without a label, with two broader concepts,
    or below themselves.
    """
    graph = _Graph()
    try:
        _read(document, graph)
    except InvalidInput:
        raise
    except DefusedXmlException as error:
        raise InvalidInput.of("body", "declares entities, which are not read; write their text instead") from error
    except (ET.ParseError, LookupError, ValueError) as error:
        raise InvalidInput.of("body", f"is not XML: {error}; SKOS is read as RDF/XML, not as Turtle") from error
    errors: list[FieldError] = []
    rows: dict[str, tuple[int, str | None, dict[str, Any]]] = {}
    for number, (uri, concept) in enumerate(graph.concepts(), 1):
        row = _make_row(number, uri, concept, graph.dropped)
        broader = sorted({*graph.links[_BROADER].get(uri, ()), *graph.links[_NARROWER].get(uri, ())})
        if row is None:
            errors.append(FieldError(f"concepts.{number}.prefLabel", f"{uri!r} has no label"))
        elif len(broader) > 1:
            detail = f"{uri!r} has {len(broader)} broader concepts: {', '.join(broader[:5])}; a keyword has one parent"
            errors.append(FieldError(f"concepts.{number}.broader", detail))
        else:
            rows[uri] = (number, broader[0] if broader else None, row)
    graph.count_unused()
    free_items(graph.texts, *graph.links.values())
    if errors:
        raise InvalidInput(f"{errors[0].field}: {errors[0].message}; nothing was imported", errors[:_MAX_NAMED])
    if not rows:
        raise InvalidInput.of("body", "holds no skos:Concept")
    counts = (+graph.dropped).most_common(_MAX_PROPERTIES)
    names = [tag.replace(_SKOS, "skos:").replace("{", "").replace("}", "") for (tag, _), _ in counts]
    dropped = Dropped({(name, why): count for name, ((_, why), count) in zip(names, counts, strict=True)})
    return sort_by_parent(rows, "concepts", "broader"), dropped


class _Graph:
    """What a document says of its subjects: texts by property, and which are linked.

    `links` has for broader, narrower and hasTopConcept the lower subjects, each with the upper ones.
    """

    def __init__(self) -> None:
        self.texts: dict[str, dict[str, list[tuple[str, str]]]] = {}
        self._concepts: dict[str, None] = {}
        self._blank = 0
        self._schemes: set[str] = set()
        self.links: dict[str, dict[str, set[str]]] = {_BROADER: {}, _NARROWER: {}, _HAS_TOP: {}}
        self.dropped = Dropped()

    def concepts(self) -> Iterator[tuple[str, Mapping[str, list[tuple[str, str]]]]]:
        """Yield each concept with its texts and their languages by property."""
        return ((uri, self.texts.get(uri, {})) for uri in self._concepts)

    def add_node(self, element: ET.Element, language: str) -> str:
        """Take in an element that describes a subject, and those nested in it; return the subject."""
        subject = element.get(f"{_RDF}about") or self._name_subject(element)
        if element.tag == f"{_SKOS}Concept":
            self._concepts[subject] = None
        language = element.get(_LANGUAGE, language)
        for name, value in element.attrib.items():
            if not name.startswith(_RDF) and name != _LANGUAGE:
                self._add_text(subject, name, value, language)
        for child in element:
            self._add_property(subject, child, child.get(_LANGUAGE, language))
        return subject

    def _name_subject(self, element: ET.Element) -> str:
        named = element.get(f"{_RDF}ID") or element.get(f"{_RDF}nodeID")
        if named is not None:
            return f"#{named}"
        self._blank += 1
        return f"_:{self._blank}"

    def _add_property(self, subject: str, child: ET.Element, language: str) -> None:
        targets = [self.add_node(nested, language) for nested in child]
        blank = child.get(f"{_RDF}nodeID")
        targets += [uri for uri in (child.get(f"{_RDF}resource"), None if blank is None else f"#{blank}") if uri]
        if not targets:
            self._add_text(subject, child.tag, child.text or "", language)
        elif child.tag == f"{_RDF}type":
            if f"{_SKOS[1:-1]}Concept" in targets:
                self._concepts[subject] = None
            self.dropped[child.tag, DropReason.NO_PLACE] += len(set(targets) - _TYPES)
        elif child.tag == _BROADER:
            self.links[_BROADER].setdefault(subject, set()).update(targets)
        elif child.tag in self.links:
            for target in targets:
                self.links[child.tag].setdefault(target, set()).add(subject)
        elif child.tag in _OF_SCHEMES:
            self._schemes.update(targets)
        else:
            self.dropped[child.tag, DropReason.NO_PLACE] += len(targets)

    def count_unused(self) -> None:
        """Count what is said of subjects that are no concepts of the document, and the schemes if there are several."""
        self.dropped[_IN_SCHEME, DropReason.NO_PLACE] += len(self._schemes) if len(self._schemes) > 1 else 0
        for tag, links in self.links.items():
            unknown = sum(len(uppers) for lower, uppers in links.items() if lower not in self._concepts)
            self.dropped[tag, DropReason.NO_PLACE if tag == _BROADER else DropReason.NOT_IN_FILE] += unknown
        for subject in self.texts.keys() - self._concepts.keys():
            for tag, texts in self.texts[subject].items():
                self.dropped[tag, DropReason.NO_PLACE] += len(texts)

    def _add_text(self, subject: str, name: str, value: str, language: str) -> None:
        if value.strip() and name not in _TEXTS:
            self.dropped[name, DropReason.NO_PLACE] += 1
        elif value.strip():
            self.texts.setdefault(subject, {}).setdefault(name, []).append((language.lower(), value.strip()))


class _Pieces(BytesIO):
    """A document that is read in pieces. A piece of it without the beginning or end of an element has a limit.

    The parser reads an unfinished tag or comment again with each piece, which takes quadratic time.
    """

    unbroken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes. Raises InvalidInput."""
        piece = super().read(size)
        self.unbroken += len(piece)
        if self.unbroken > _MAX_UNBROKEN:
            raise InvalidInput.of("body", f"has a tag, a text or a comment of more than {_MAX_UNBROKEN} bytes")
        return piece


def _read(document: bytes, graph: _Graph) -> None:
    depth, root, pieces = 0, None, _Pieces(document)
    for event, element in iterparse(pieces, events=("start", "end")):
        pieces.unbroken = 0
        depth += 1 if event == "start" else -1
        if depth > _MAX_DEPTH:
            raise InvalidInput.of("body", f"is nested more than {_MAX_DEPTH} deep")
        if root is None:
            root = element
            if root.tag != f"{_RDF}RDF":
                raise InvalidInput.of("body", f"must be RDF/XML, whose first element is rdf:RDF, not {root.tag}")
        elif event == "end" and depth == 1:
            graph.add_node(element, root.get(_LANGUAGE, ""))
            # What is read needs no memory any more.
            root.clear()


def _make_row(
    number: int, uri: str, texts: Mapping[str, list[tuple[str, str]]], dropped: Dropped
) -> dict[str, Any] | None:
    labels = [label for tag in _LABELS for label in texts.get(tag, ())]
    names = next((texts[tag] for tag in _NAMES if tag in texts), None)
    if names is None:
        return None
    name = min(names, key=_rank_language)[1]
    described = [("", "")]
    for place, found in enumerate(kind for kind in _DESCRIPTIONS if kind in texts):
        dropped[found, DropReason.NO_PLACE] += len(texts[found]) - (place == 0)
        described = described if place else texts[found]
    return {
        "ref": str(number),
        "name": name,
        "aliases": list(dict.fromkeys(text for _, text in labels if text != name)),
        "description": min(described, key=_rank_language)[1],
        "metadata": {"uri": uri} if uri.startswith("http") else {},
    }


def _rank_language(labelled: tuple[str, str]) -> int:
    language = labelled[0].split("-")[0]
    return _LANGUAGES.index(language) if language in _LANGUAGES else len(_LANGUAGES)


def _render_text(name: str, text: str) -> str:
    # A parser reads a carriage return as a line feed, unless it is written by its number.
    plain = escape(text.translate(_UNWRITABLE), {"\r": "&#13;"})
    return f"  <skos:{name}>{plain}</skos:{name}>\n"
