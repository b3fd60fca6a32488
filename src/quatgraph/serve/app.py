"""The application: every route of the service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from quatgraph import __version__
from quatgraph.errors import UserError
from quatgraph.serve import replies
from quatgraph.serve.assets import read_assets
from quatgraph.serve.board import Board
from quatgraph.serve.counters import Counters
from quatgraph.serve.gate import LIMITS, Limits, RefusedError
from quatgraph.serve.registry import NotFoundError, Registry, UnavailableError
from quatgraph.serve.schemas import REQUESTS, parse_request
from quatgraph.serve.worker import BusyError, Worker

Limit = Annotated[int, Query(ge=1, le=1000)]


def create_app(
    registry: Registry,
    board: Board | None = None,
    *,
    counters: Counters | None = None,
    limits: Limits = LIMITS,
) -> FastAPI:
    """The application for some models, and the records of a board if there is one."""
    worker, side = Worker(), ThreadPoolExecutor(1, thread_name_prefix="quatgraph-search")
    counted, assets = counters or Counters(), read_assets()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        registry.load_in_background()
        yield
        worker.stop(limits.seconds)
        side.shutdown()

    app = FastAPI(
        title="quatgraph",
        version=__version__,
        description="Trained models and the records of trainings, over HTTP.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    _report_errors(app)

    async def limited(
        awaitable: Awaitable[Any],
        status: int = 504,
        sentence: str = "the answer takes more than {:g} s: ask for less at once",
    ) -> Any:
        try:
            async with asyncio.timeout(limits.seconds):
                return await awaitable
        except TimeoutError:
            raise RefusedError(status, sentence.format(limits.seconds)) from None

    async def ask(name: str, request: Request, method: str) -> Response:
        model = registry.find(name)
        answers = model.answers
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise RefusedError(415, "send JSON, with the header Content-Type: application/json")
        late = "the body was not sent within {:g} s: send it faster, or less of it"
        body = await limited(request.body(), 408, late)
        keywords = parse_request(answers.task, body)
        return _json(await limited(worker.submit(getattr(answers, method), keywords)))

    async def compute(call: Callable[[], Any]) -> Response:
        """Runs what is not a batch in the thread of torch."""
        found = await limited(worker.submit(_Single(call), None))
        return _json(to_json(found, inf_nan_mode="null"))

    # The busiest routes come first, since they are tried in this order.
    schemas = [{"$ref": f"#/components/schemas/{one.__name__}"} for one in REQUESTS.values()]
    body = {"requestBody": {"content": {"application/json": {"schema": {"oneOf": schemas}}}}}

    @app.post("/api/models/{name}/predict", response_model=replies.Reply, openapi_extra=body)
    async def predict(name: str, request: Request) -> Any:
        """Predicts; the body depends on the model's task."""
        return await ask(name, request, "predict")

    @app.post("/api/models/{name}/explain", response_model=replies.Reply, openapi_extra=body)
    async def explain(name: str, request: Request) -> Any:
        """Predicts as ``predict``, and says what supports each answer."""
        return await ask(name, request, "explain")

    @app.get("/healthz", response_model=replies.Health)
    async def health() -> Any:
        """Whether the service runs, and the state of each model."""
        return {
            "status": "ok",
            "models": {name: model.state for name, model in registry.models.items()},
        }

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """What the service counts, in Prometheus's text format."""
        states = {name: model.state for name, model in registry.models.items()}
        text = counted.text(states, worker.counts)
        return Response(text, media_type="text/plain; version=0.0.4")

    @app.get("/api/models", response_model=replies.ModelList)
    async def list_models() -> Any:
        """All models, and whether they are ready."""
        return {
            "version": __version__,
            "board": board is not None,
            "models": [model.summary() for model in registry.models.values()],
        }

    @app.get("/api/models/{name}", response_model=replies.ModelCard)
    async def show_model(name: str) -> Any:
        """All about a model: its card, metrics, curves, settings and an example of a query."""
        model = registry.find(name)
        answers = model.answers
        return await compute(lambda: {"name": name, "state": model.state} | answers.describe())

    @app.get("/api/models/{name}/search", response_model=replies.Found)
    async def search(
        name: str,
        q: Annotated[str, Query(max_length=200)] = "",
        kind: str = "",
        limit: Annotated[int, Query(ge=1, le=100)] = 10,
    ) -> Any:
        """Names that start with ``q`` or resemble it: entities, relations, nodes, classes, ..."""
        answers = registry.find(name).answers
        chosen = kind or answers.kinds[0]
        loop = asyncio.get_running_loop()
        return await limited(loop.run_in_executor(side, answers.search, q, chosen, limit))

    @app.get("/api/models/{name}/graph", response_model=replies.Drawing)
    async def draw(
        name: str,
        of: Annotated[str, Query(max_length=1000)] = "",
        hops: Annotated[int, Query(ge=1, le=2)] = 1,
        limit: Annotated[int, Query(ge=2, le=200)] = 40,
        smiles: Annotated[str, Query(max_length=1000)] = "",
    ) -> Any:
        """The neighbourhood of an entity or a node, a graph of the training data, or a molecule."""
        answers = registry.find(name).answers
        if smiles:
            return await compute(lambda: answers.draw_molecule(smiles))
        return await compute(lambda: answers.draw(of, hops, limit))

    @app.get("/api/models/{name}/items", response_model=replies.Items)
    async def items(
        name: str,
        request: Request,
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Limit = 50,
        format: str = "json",
    ) -> Any:
        """The nodes, graphs or documents of the training data with their predictions.

        Filters: ``q``, a part of the id; ``prediction``, ``label`` and ``split``. With
        ``format=csv`` all rows as a file.
        """
        answers = registry.find(name).answers
        filters = dict(request.query_params)
        if format == "csv":
            content = await limited(
                worker.submit(_Single(lambda: answers.items_csv(filters)), None)
            )
            disposition = {"content-disposition": f'attachment; filename="{answers.task}s.csv"'}
            return Response(content, media_type="text/csv; charset=utf-8", headers=disposition)
        return await compute(lambda: answers.items(filters, offset, limit))

    if board is not None:
        _add_board(app, board, side, limited)
    _describe_requests(app)

    @app.get("/{path:path}", include_in_schema=False)
    async def page(path: str, request: Request) -> Response:
        asset = assets.get(f"/{path}")
        if asset is None:
            if any(route.matches(request.scope)[0] is Match.PARTIAL for route in app.routes):
                raise HTTPException(405)
            raise NotFoundError(f"there is no /{path}; /docs lists what there is")
        headers = {"etag": asset.etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == asset.etag:
            return Response(status_code=304, headers=headers)
        return Response(asset.content, media_type=asset.type, headers=headers)

    return app


class _Single:
    """A call that is never batched with others."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call

    def __call__(self, requests: Any) -> list[Any]:
        return [self.call()]


def _describe_requests(app: FastAPI) -> None:
    """Adds the bodies of all tasks to the description of the service."""
    describe = app.openapi
    named: list[tuple[type[BaseModel], Literal["validation"]]]
    named = [(model, "validation") for model in REQUESTS.values()]

    def openapi() -> dict[str, Any]:
        found = describe()
        _, own = models_json_schema(named, ref_template="#/components/schemas/{model}")
        found["components"]["schemas"].update(own["$defs"])
        return found

    app.openapi = openapi  # type: ignore[method-assign]


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _add_board(
    app: FastAPI, board: Board, side: ThreadPoolExecutor, limited: Callable[[Any], Any]
) -> None:
    """The routes of the results board."""

    async def compute(call: Callable[..., Any], *arguments: Any) -> Response:
        loop = asyncio.get_running_loop()
        found = await limited(loop.run_in_executor(side, call, *arguments))
        return _json(to_json(found, inf_nan_mode="null"))

    @app.get("/api/runs", response_model=replies.Runs)
    async def list_runs(request: Request) -> Any:
        """All runs on record; those of running trainings appear as they are written."""
        loop = asyncio.get_running_loop()
        etag = f'"{await limited(loop.run_in_executor(side, board.version))}"'
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers={"etag": etag})
        reply: Response = await compute(board.list_runs)
        reply.headers["etag"] = etag
        return reply

    @app.get("/api/runs/curves", response_model=replies.Curves)
    async def show_curves(
        id: Annotated[list[str], Query(max_length=50, description="Ids of runs.")],
    ) -> Any:
        """The learning curves of some runs."""
        return await compute(board.curves, id)

    @app.get("/api/runs/compare", response_model=replies.Compared)
    async def compare_groups(first: str, second: str) -> Any:
        """Two groups of runs compared split by split, as the command compare does."""
        return await compute(board.compare, first, second)


def _report_errors(app: FastAPI) -> None:
    """Every error is one sentence: ``{"error": "..."}``."""

    def reply(status: int, sentence: str) -> Response:
        return Response(
            to_json({"error": sentence}), status_code=status, media_type="application/json"
        )

    @app.exception_handler(UserError)
    async def _(request: Request, error: UserError) -> Response:
        return reply(422, str(error))

    @app.exception_handler(NotFoundError)
    async def _(request: Request, error: NotFoundError) -> Response:
        return reply(404, str(error))

    @app.exception_handler(UnavailableError)
    async def _(request: Request, error: UnavailableError) -> Response:
        return reply(503, str(error))

    @app.exception_handler(BusyError)
    async def _(request: Request, error: BusyError) -> Response:
        return reply(503, "too many requests wait; ask again in a moment")

    @app.exception_handler(RefusedError)
    async def _(request: Request, error: RefusedError) -> Response:
        return reply(error.status, str(error))

    @app.exception_handler(ClientDisconnect)
    async def _(request: Request, error: ClientDisconnect) -> Response:
        return reply(499, "the client has gone")  # which nobody reads, but it is counted

    @app.exception_handler(RequestValidationError)
    async def _(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        message = first["msg"]
        where = ".".join(str(part) for part in first["loc"][1:])
        return reply(422, f"{where}: {message[0].lower()}{message[1:]}")

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            return reply(405, f"{request.method} is not for this path; /docs lists what is")
        return reply(error.status_code, str(error.detail).lower())

    @app.exception_handler(Exception)
    async def _(request: Request, error: Exception) -> Response:
        return reply(500, "the service failed; its log says why")
