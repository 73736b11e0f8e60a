"""Files of keyword trees that the tests import."""

import httpx

JSONL, SKOS, OUTLINE, CSV = "application/x-ndjson", "application/rdf+xml", "text/plain", "text/csv"
TYPES = {"jsonl": JSONL, "skos": SKOS, "outline": OUTLINE, "csv": CSV}
HEAD = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:skos="http://www.w3.org/2004/02/skos/core#">'
)


async def import_file(api: httpx.AsyncClient, text: str | bytes, media_type: str, **params: str) -> httpx.Response:
    return await api.post("/api/keywords/import", content=text, headers={"Content-Type": media_type}, params=params)


def make_concept(uri: str, label: str, *broader: str) -> str:
    above = "".join(f'<skos:broader rdf:resource="{item}"/>' for item in broader)
    return f'<skos:Concept rdf:about="{uri}"><skos:prefLabel>{label}</skos:prefLabel>{above}</skos:Concept>'


async def list_paths(api: httpx.AsyncClient) -> dict[str, list[str]]:
    """Return the aliases of every keyword by its path."""
    found: dict[str, list[str]] = {}

    async def walk(keyword_id: str, above: str) -> None:
        for row in (await api.get(f"/api/keywords/{keyword_id}/children")).json()["results"]:
            path = f"{above} > {row['name']}"
            found[path] = row["aliases"]
            await walk(row["id"], path)

    await walk("root", "")
    return found
