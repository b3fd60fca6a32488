"""Baselines for the service: ``python -m benchmarks.serve_peers VARIANT BUNDLE PORT``.

``bare`` sends empty replies as fast as FastAPI can. ``pool`` predicts in FastAPI's own thread pool,
one request per thread at a time.
"""

import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from quatgraph.predictors import load


class Query(BaseModel):
    """A query to a knowledge graph."""

    head: str | None = None
    relation: str | None = None
    tail: str | None = None


def make_app(variant: str, bundle: str) -> FastAPI:
    """The application of a variant."""
    app = FastAPI()

    @app.get("/healthz")
    def health() -> dict[str, Any]:
        return {"models": {"model": "ready"}}

    path = "/api/models/{name}/predict"
    if variant == "bare":

        @app.post(path)
        async def nothing(name: str, query: Query) -> dict[str, Any]:
            return {"answers": []}

        return app
    predict: Callable[..., Any] = load(bundle, device="cpu").predict

    @app.post(path)
    def answer(name: str, query: Query) -> dict[str, Any]:
        return {"answers": list(predict(**query.model_dump()).rows())}

    return app


if __name__ == "__main__":
    variant, bundle, port = sys.argv[1:]
    uvicorn.run(make_app(variant, bundle), port=int(port), log_level="warning", access_log=False)
