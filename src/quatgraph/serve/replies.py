"""The replies of the service, typed."""

from typing import Any

from pydantic import BaseModel, Field

Label = str | int | bool | float


class Health(BaseModel):
    """The health of the service."""

    status: str
    models: dict[str, str] = Field(description="loading, ready or failed, by model.")


class ModelSummary(BaseModel):
    """A model in the list."""

    name: str
    state: str = Field(description="loading, ready or failed.")
    error: str = Field(description="Why it failed, or empty.")
    task: str = Field(description="node, graph, link or text.")
    data: str
    methods: list[str]
    metrics: dict[str, float | None]


class ModelList(BaseModel):
    """All models."""

    version: str
    board: bool = Field(description="Whether there is a results board.")
    models: list[ModelSummary]


class Member(BaseModel):
    """One of the models whose predictions are combined."""

    method: str
    split: int
    seed: int
    epoch: int | None
    weight: float
    parameters: int | None
    metrics: dict[str, float | None]
    settings: dict[str, Any]


class Curve(BaseModel):
    """The learning curves of a run."""

    id: str = ""
    method: str
    split: int
    seed: int
    epochs: list[int]
    selected: int
    values: dict[str, list[float | None]]


class OptionHelp(BaseModel):
    """An option of ``predict``."""

    name: str
    help: str
    default: Any


class ModelCard(BaseModel):
    """Everything about a model."""

    name: str
    state: str
    task: str
    data: dict[str, Any]
    sizes: dict[str, int]
    classes: list[Label]
    relations: list[str]
    metrics: dict[str, float | None]
    members: list[Member]
    refitted: bool
    temperature: float | None
    smoothing: dict[str, Any] | None
    notes: list[str]
    environment: dict[str, str]
    finished: str
    curves: list[Curve]
    options: list[OptionHelp]
    data_option: str | None
    kinds: list[str]
    example: dict[str, Any] | None


class SupportingTriple(BaseModel):
    """A known triple that supports an answer."""

    head: str
    relation: str
    tail: str
    strength: float


class LinkAnswer(BaseModel):
    """A predicted or scored triple."""

    query: int
    predicted: str = Field(description="head, tail, or both for a triple that was given.")
    head: str
    relation: str
    tail: str
    score: float
    head_id: str | None = Field(None, description="With tail_id, if ids and labels differ.")
    relation_id: str | None = None
    tail_id: str | None = None
    rank: float | None = Field(None, description="Among all entities, other known ones left out.")
    tail_rank: float | None = Field(None, description="With head_rank, for a given triple.")
    head_rank: float | None = None
    known: str = Field(description="train, valid, test, or empty if it is new.")
    support: list[SupportingTriple] | None = None


class EdgeSupport(BaseModel):
    """A neighbour, and the drop in probability without the edge to it."""

    node: str
    support: float


class ClassAnswer(BaseModel):
    """A classified node, graph or text."""

    id: str | None = None
    text: str | None = None
    prediction: Label
    probability: float
    probabilities: list[float] = Field(description="In the order of the reply's classes.")
    label: Label | None = None
    split: str | None = None
    support: dict[str, float] | None = Field(None, description="text: by word.")
    attention: dict[str, float] | None = Field(None, description="text: by word.")
    edges: list[EdgeSupport] | None = Field(None, description="node: by neighbour.")
    nodes: list[float] | None = Field(None, description="graph: by node.")
    node_names: list[str] | None = Field(None, description="graph: tag and number of each node.")


class Reply(BaseModel):
    """The answers to a request."""

    classes: list[Label] | None = None
    answers: list[LinkAnswer] | list[ClassAnswer]
    notes: list[str]


class Name(BaseModel):
    """A name in the search results."""

    id: str
    label: str
    name: str = Field(description="What a query takes: the label, or the id if others have it.")


class Found(BaseModel):
    """The search results, best first."""

    kind: str
    results: list[Name]


class DrawnNode(BaseModel):
    """A node of a drawing."""

    id: str
    label: str
    name: str | None = Field(None, description="link: what a query takes, as search returns it.")
    hop: int
    prediction: Label | None = None
    probability: float | None = None
    known: Label | None = None
    split: str | None = None


class DrawnEdge(BaseModel):
    """An edge of a drawing."""

    source: str
    target: str
    relation: str | None = None
    split: str | None = None


class Drawing(BaseModel):
    """A graph to draw."""

    nodes: list[DrawnNode]
    edges: list[DrawnEdge]


class Item(BaseModel):
    """A row of the table of items."""

    id: str
    prediction: Label
    probability: float
    label: Label | None = None
    split: str | None = None


class Items(BaseModel):
    """A page of the table of items."""

    total: int
    offset: int
    items: list[Item]


class Run(BaseModel):
    """A recorded run."""

    id: str
    group: str
    file: str
    task: str
    dataset: str
    method: str
    protocol: str
    split: int
    seed: int
    metrics: dict[str, float | None]
    best_epoch: int
    epochs_run: int
    parameters: int
    seconds: float
    finished: str
    settings: dict[str, Any]


class Runs(BaseModel):
    """All recorded runs."""

    folder: str
    runs: list[Run]
    notes: list[str]


class Curves(BaseModel):
    """The learning curves of some runs."""

    curves: list[Curve]


class ComparedPair(BaseModel):
    """Two groups of runs and the test of their difference."""

    first: str
    second: str
    first_mean: float
    second_mean: float
    metric: str
    paired_by: str
    difference: float
    low: float
    high: float
    p: float
    pairs: int
    test: str
    words: str


class ComparedSplit(BaseModel):
    """The test metric of both groups for one split and seed."""

    split: int
    seed: int
    first: float
    second: float


class Compared(BaseModel):
    """A comparison of two groups of runs."""

    pair: ComparedPair
    splits: list[ComparedSplit] = Field(description="What is paired.")
    notes: list[str]
