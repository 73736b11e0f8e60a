"""What fake servers answer at `/embeddings` and `/rerank`: the vectors of the hashing embedder."""

from collections.abc import Mapping
from typing import Any

from tests.fakes.hashing_embedder import DIMENSIONS, hash_vector
from tests.fakes.scripted_reranker import by_similarity


def embeddings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answer with a vector for each text, backwards, as only `index` counts."""
    texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
    dimensions = asked.get("dimensions") or DIMENSIONS
    vectors = [hash_vector(text, dimensions) for text in texts]
    data = [{"object": "embedding", "index": at, "embedding": list(vector)} for at, vector in enumerate(vectors)]
    tokens = sum(map(len, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": asked["model"], "data": data[::-1], "usage": usage}


def rerank(asked: Mapping[str, Any]) -> dict[str, Any] | list[dict[str, Any]]:
    """Answer with how alike each text and the query are, the best first, in the shape of the question."""
    texts = asked["texts"] if "texts" in asked else asked["documents"]
    scores = by_similarity(asked["query"], texts)
    order = sorted(range(len(texts)), key=lambda at: -scores[at])
    if "texts" in asked:
        return [{"index": at, "score": scores[at]} for at in order]
    return {"id": "scripted", "results": [{"index": at, "relevance_score": scores[at]} for at in order]}
