"""The forms of requests and answers. Limits that an operator can set are checked by the endpoints."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Item = TypeVar("Item")
Listed = Annotated[list[Item], Field(fail_fast=True)]
"""A list in a request. Reading ends at the first wrong entry: a million errors would take seconds."""

Id = Annotated[int, Field(ge=0, lt=2**63)] | Annotated[str, Field(min_length=1, max_length=1024)]
Vector = Annotated[
    Listed[float] | str, Field(description="Numbers, or base64 of float32 numbers, the least significant byte first.")
]
Code = Annotated[
    Listed[Annotated[int, Field(ge=0, le=255)]] | str,
    Field(description="Bytes of a packed code, first bit most significant: a list of numbers, or base64 or hex."),
]
Image = Annotated[str, Field(description="An image file as base64.")]
Text = Annotated[str, Field(max_length=100_000)]
"""Longest text. Code that reads it, such as a regular expression, blocks all other Python threads meanwhile."""
Payload = dict[str, Any]
Encoding = Literal["base64", "hex", "ubinary"]


class _Request(BaseModel):
    """Strict JSON: a string is not taken for a number; NaN and unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class SearchRequest(_Request):
    """One kind of query, and how to search."""

    vector: Vector | None = None
    vectors: Listed[Vector] | None = None
    id: Id | None = Field(None, description="The neighbors of a row that is there; itself is among them.")
    code: Code | None = None
    codes: Listed[Code] | None = None
    text: Text | None = Field(None, description="Where the search has texts, or the server has features for texts.")
    by: Literal["words", "meaning", "both"] | None = Field(
        None, description="What a text is compared by. Left out: both, as far as the server has them."
    )
    weights: dict[Literal["words", "meaning"], Annotated[float, Field(ge=0)]] | None = Field(
        None, description="Of the words and of the meaning of a text, where it is compared by both."
    )
    operators: bool = Field(
        False, description='Whether "a phrase", begin*, +must and -without mean something in a text.'
    )
    image: Image | None = Field(None, description="Where the server has features for images.")
    like: Listed[Id] | None = Field(None, description="Rows to be like, as a query; they are no neighbors.")
    unlike: Listed[Id] | None = Field(None, description="Beside ``like``: rows to avoid.")
    diversity: float = Field(
        0.0, ge=0, le=1, description="How much neighbors should differ from each other (maximal marginal relevance)."
    )
    k: int = Field(10, ge=1, description="How many neighbors.")
    rerank: Literal["codes", "asymmetric", "vectors"] | None = Field(
        None, description="What orders the candidates. Left out: what the search is set up for."
    )
    candidates: int | None = Field(None, ge=1, description="How many codes are ordered anew.")
    recall: float | None = Field(
        None,
        gt=0,
        le=1,
        description="The share of the true neighbors, by the kept vectors, to be found; 1 compares all vectors. "
        "Left out: what the search is set up for. It is not for codes, nor beside candidates.",
    )
    filter: dict[str, Any] | None = Field(None, description="A condition on the payloads.")
    subset: Listed[Id] | None = Field(None, description="Look only among the rows with these ids.")
    radius: float | None = Field(None, ge=0, description="Leaves out neighbors whose distance is larger.")
    payloads: bool = Field(True, description="Whether the answer has the payloads.")
    code_encoding: Literal["base64", "hex"] = Field("base64", description="Of codes that are strings.")


class SearchResult(BaseModel):
    """The neighbors of one query, nearest first; ties go to the row that was added first."""

    ids: list[int] | list[str]
    distances: list[float]
    payloads: list[Payload] | None = None
    parts: dict[str, list[float]] | None = Field(
        None, description="Of a text: what words and meaning have given to the score of each neighbor."
    )
    recall: float | None = Field(
        None, description="Where lists were searched or a recall was asked for: the share that is expected to be found."
    )
    probed: int | None = Field(None, description="Beside recall: how many lists were looked at; 0 where all rows were.")


class SearchResponse(BaseModel):
    """The neighbors of each query, in the order of the queries."""

    results: list[SearchResult]


class CodesRequest(_Request):
    """Input to be encoded: one of the three fields."""

    vectors: Listed[Vector] | None = None
    texts: Listed[Text] | None = None
    images: Listed[Image] | None = None
    encoding: Encoding = Field("base64", description="How the codes are written.")


class CodesResponse(BaseModel):
    """Packed codes, first bit most significant."""

    codes: list[str] | list[list[int]]
    encoding: Encoding
    n_bits: int


class EmbeddingsRequest(BaseModel):
    """A request in the form of OpenAI's clients. Other fields are ignored."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    input: Text | Listed[Text] | Listed[float] | Listed[Listed[float]] = Field(
        description="Texts where the server has features for them; or vectors, where OpenAI's has tokens."
    )
    model: str = "hashlearn"
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, description="If it is there, the bytes of a code.")


class Embedding(BaseModel):
    """The bytes of a code as numbers from 0 to 255, or base64 of these numbers as float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Always zero: this server does not count tokens."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """An answer as OpenAI's clients read it."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class Point(_Request):
    """A row to be written."""

    id: Id
    vector: Vector
    payload: Payload | None = None


class PointsRequest(_Request):
    """Rows to be written. A row whose id is already in the search is replaced as a whole."""

    points: Listed[Point] = Field(min_length=1)
    duplicates: Literal["skip", "flag", "error"] | None = Field(
        None, description="what to do with a row that is near another one; see `max_distance`"
    )
    max_distance: float | None = Field(
        None, ge=0, description="the largest distance of two rows that are the same thing"
    )


class NearPoint(BaseModel):
    """A row of a request that is near another row."""

    id: int | str
    of: int | str
    distance: float


class PointsResponse(BaseModel):
    """The number of rows that were written; they are on disk. With ``duplicates``, ``near`` lists rows near others."""

    written: int
    near: list[NearPoint] | None = None


class IdsRequest(_Request):
    """Ids of rows."""

    ids: Listed[Id] = Field(min_length=1)


class GetRequest(IdsRequest):
    """Rows to be read."""

    vectors: bool = Field(False, description="Whether the answer has the vectors, as base64 of float32 numbers.")


class DeleteRequest(IdsRequest):
    """Rows to be removed."""

    must_exist: bool = Field(False, description="Whether nothing is removed, and 422 is answered, if one is not there.")


class DeleteResponse(BaseModel):
    """The number of rows that were removed. The other ids were not in the search."""

    removed: int


class FilterRequest(_Request):
    """The rows that meet a condition on the payloads, or all rows."""

    filter: dict[str, Any] | None = Field(None, description="A condition on the payloads.")


class ScrollRequest(FilterRequest):
    """Rows in the order in which they were added, a page at a time."""

    limit: int = Field(100, ge=1, description="Rows of a page.")
    after: str | None = Field(None, max_length=200, description="The ``after`` of the page before.")
    vectors: bool = Field(False, description="Whether the answer has the vectors, as base64 of float32 numbers.")


class CountResponse(BaseModel):
    """How many rows there are."""

    count: int


class FacetsRequest(FilterRequest):
    """A field of the payloads whose values are counted."""

    field: str = Field(min_length=1, max_length=1024)
    limit: int = Field(100, ge=1, description="The most frequent values only.")


class FacetEntry(BaseModel):
    """A value, and the number of rows that have it."""

    value: str | float | bool
    count: int


class FacetsResponse(BaseModel):
    """The values of a field, the most frequent first."""

    facets: list[FacetEntry]


class PointEntry(BaseModel):
    """A row of a list."""

    id: int | str
    code: str = Field(description="base64")
    payload: Payload
    vector: str | None = Field(None, description="base64 of float32 numbers, if they were asked for and are kept.")


class PointList(BaseModel):
    """Rows."""

    points: list[PointEntry]


class ScrollResponse(PointList):
    """A page of rows. ``after`` is null on the last page."""

    after: str | None


class PointResponse(BaseModel):
    """A row."""

    id: int | str
    code: str = Field(description="base64")
    payload: Payload
    vector: list[float] | None = Field(None, description="If the search keeps vectors.")


class InfoLimits(BaseModel):
    """The limits for a request."""

    max_body_bytes: int
    max_batch: int
    max_k: int
    max_candidates: int


class MeasuredRecall(BaseModel):
    """The share of the true neighbors that the latest queries found, with its 95 % confidence interval."""

    recall: float
    low: float
    high: float
    n_queries: int


class MeasuredDrift(BaseModel):
    """How the latest rows differ from the rows before them."""

    shares: float = Field(description="Mean difference of how often a bit is one.")
    novelty: float = Field(description="Chance that a new row is further from the old ones than these are, less 1/2.")
    error: float | None = Field(
        description="Squared error of vectors as their codes tell them, as a multiple of that of the old rows."
    )
    n_rows: int
    is_large: bool


class InfoLists(BaseModel):
    """The lists of a search of many rows."""

    lists: int
    mean_rows: float
    largest_rows: int


class Info(BaseModel):
    """The search that is served."""

    rows: int
    n_bits: int
    n_features: int
    method: str
    metric: str
    query: str = Field(description='How a query is compared with codes: by its own "code", or as a "real" vector.')
    keep_vectors: str | None = Field(description="How vectors are kept, if they are.")
    features: bool
    recall: MeasuredRecall | None
    drift: MeasuredDrift | None
    lists: InfoLists | None
    clipped_share: float | None = Field(
        description="Share of the kept values beyond the range of the fit, where vectors are kept as int8."
    )
    limits: InfoLimits


class SnapshotRequest(_Request):
    """The name of a new snapshot."""

    name: str = Field(pattern="^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")


class SnapshotEntry(BaseModel):
    """A snapshot; every row of it was read back."""

    name: str
    rows: int


class SnapshotList(BaseModel):
    """The names of the snapshots of a search."""

    snapshots: list[str]


class SearchEntry(BaseModel):
    """A search of the server. ``rows`` is null while the search is not open."""

    name: str
    open: bool
    rows: int | None


class SearchList(BaseModel):
    """The searches of the server."""

    searches: list[SearchEntry]


class ModelEntry(BaseModel):
    """A search in the form of a model of OpenAI. Fields after ``owned_by`` are null while the search is not open."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    method: str | None = None
    n_bits: int | None = None
    n_features: int | None = None
    metric: str | None = None


class ModelList(BaseModel):
    """An answer as OpenAI's clients read it."""

    object: Literal["list"]
    data: list[ModelEntry]


class ErrorDetail(BaseModel):
    """An error message, and the field that it is about."""

    field: str | None
    message: str


class ErrorResponse(BaseModel):
    """Every answer that is not 2xx."""

    error: ErrorDetail


ERRORS: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorResponse, "description": "What is wrong."}}
"""The errors in the schema of every endpoint."""
