"""What tasks read and write: examples, answers, verdicts, scores, failures, and what a task must know of its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import NonNegativeInt, StrictBool

from tasks.common.validation import JsonRecord, Moment


@dataclass(frozen=True)
class Example:
    """One question of the data set, with the pages that answer it and the answer that people gave."""

    id: str
    context: str
    question: str
    gold: str


@dataclass(frozen=True)
class Answer:
    """A reply of the target, without the end-of-turn token.  `whole`: it is not cut (tasks/judging/whole.py)."""

    example: str
    text: str
    tokens: int
    finish: Literal["stop", "length"]
    ids: tuple[int, ...]
    whole: bool


@dataclass(frozen=True)
class Verdict:
    """Whether an answer agrees with the gold (is right), which stage decided it (1, 2 or 3), and why."""

    is_correct: bool
    stage: int
    confidence: float
    category: Literal["numerical", "yes_no", "text"]  # of the gold (`category_of`): "text" for all that is no other
    reasoning: str


@dataclass(frozen=True)
class JudgedAnswer:
    """One answer and its verdict.  `tokens` is without the token that ended it; a loop repeats itself to the cap."""

    example: str
    tokens: NonNegativeInt
    is_right: bool
    text: str
    question: str
    gold: str
    reasoning: str
    is_whole: bool = True
    is_loop: bool = False

    @property
    def is_correct(self) -> bool:
        """Right and whole."""
        return self.is_right and self.is_whole

    @property
    def state(self) -> str:
        """`right`, or `wrong, cut`."""
        return ("right" if self.is_right else "wrong") + ("" if self.is_whole else ", cut")


@dataclass(frozen=True)
class Score:
    """The fitness of one individual on one set of examples, and what it is made of."""

    fitness: float
    shortness: float
    correctness: float
    mean_tokens: float


PROCESSOR_FILE = "processor.py"  # a generated one, which a server that is started for one individual loads
EngineName = Literal["embedded", "sglang"]  # each is in workers/sglang/engines.py


@dataclass(frozen=True)
class Sampling:
    """How the target samples. `max_new_tokens` in tokens; temperature 0 is greedy; sample j uses seed + j.

    With `end_after_sentence` the delta of cluster 0, the tokens that end a turn, acts only directly after a token that
    ends a sentence (tasks/gpu/clustering/vocabulary.py); all other deltas act everywhere.
    """

    max_new_tokens: int
    temperature: float
    top_p: float
    seed: int
    end_after_sentence: bool = False


@dataclass(frozen=True, kw_only=True)
class Target:
    """The steered model and the server that answers for it.

    With an `url` the server is already running and is never started or stopped.
    """

    model: str  # a Hugging Face id, a folder, or "embedded" for the model that ships with the embedded farm
    engine: EngineName
    lifecycle: Literal["resident", "restart"] = "resident"
    url: str = ""
    command: str = ""
    args: str = ""
    device: str
    dtype: str = "auto"  # of the embedded target: "auto", "float32" or "bfloat16"
    ready_timeout_s: float = 600.0
    request_timeout_s: float = 600.0
    concurrency: int = 1  # requests in flight of one gpu worker, for all its evaluations together
    system_prompt: str = ""
    prompt_template: str = "{context}{query}"
    sampling: Sampling

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Target:
        """From what `dataclasses.asdict` makes of one."""
        return cls(**{**values, "sampling": Sampling(**values["sampling"])})


@dataclass(frozen=True)
class Judge:
    """Who decides whether an answer is right: `name` is of `tasks.judging.graders`; the rest is for three stages."""

    model: str
    tolerance: float  # a relative error
    forgiving: bool
    temperature: float | None  # None, here and below: not sent, for models that refuse it
    top_p: float | None
    max_completion_tokens: int
    seed: int | None
    concurrency: int  # calls in flight for one evaluation
    name: str = "three_stages"
    context_tokens: int = 0  # of prompt and reply together, as model and endpoint take them; 0 is no limit

    @property
    def prompt_limit(self) -> int | None:
        """How many tokens a prompt may have; None without a limit."""
        return max(0, self.context_tokens - self.max_completion_tokens) if self.context_tokens else None


@dataclass(frozen=True)
class Reflector:
    """The language model that proposes deltas and merges scratchpads."""

    model: str
    temperature: float | None
    top_p: float | None
    max_completion_tokens: int
    seed: int | None


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint and what may be asked of it by all workers together.

    Prices are US dollars for a million tokens; None is an unknown price.
    """

    base_url: str  # "": OPENAI_BASE_URL, or OpenAI itself
    api_key_env: str  # the variable from which each process reads the key, so that none is stored
    timeout_s: float
    max_tries: int
    requests_per_minute: int
    tokens_per_minute: int
    price_prompt: float | None
    price_cached: float | None
    price_completion: float | None
    budget_usd: float  # 0 is no limit


@dataclass(frozen=True)
class Fitness:
    """fitness = lambda_shortness / (1 + mean tokens / shortness_scale) + lambda_correctness * correct / n."""

    lambda_shortness: float
    lambda_correctness: float
    shortness_scale: float  # tokens


ClusteredBy = Literal["meaning", "waste"]


@dataclass(frozen=True)
class Constrained:
    """Fewer tokens without losing correct answers, in comparison with a baseline."""

    baseline_tokens: float  # a mean, more than 0
    baseline_correctness: float


Objective = Fitness | Constrained


@dataclass(frozen=True)
class Clusters:
    """How the vocabulary is clustered; equal values and an equal tokenizer give the same content hash.

    Clusters by "waste" are made of two sets of answers (`Sides`), and use the folder and `buckets` alone.
    """

    folder: str
    embedder: str
    components: int  # of the PCA
    count: int  # of k-means; clusters 0 and 1 come on top
    seed: int
    batch_size: int
    device: str
    discovered: tuple[int, ...] = ()  # token ids on which PCA and k-means are fitted; none means the whole vocabulary
    by: ClusteredBy = "meaning"
    buckets: int = 10  # of the tokens in answers; waste has clusters 0 to 2 before them, and the rest after them


@dataclass(frozen=True)
class Sides:
    """The texts of two sets of answers of one model: in its plain manner, and short right ones (golds may be there)."""

    verbose: tuple[str, ...]
    short: tuple[str, ...]


@dataclass(frozen=True)
class ClusterFigures(JsonRecord):
    """What is known of clusters by waste beside their descriptions; other clusters have the defaults."""

    eos: int = 0  # the cluster of the tokens that end a turn
    pinned: int | None = None  # that of the tokens that no answer used
    log_odds: tuple[float, ...] = ()
    """Of each cluster: how much likelier its tokens are in verbose answers than in short right ones; 0 for the two."""


@dataclass(frozen=True)
class Filters:
    """`phase0.filters.*`: which tokens are no candidates of a collection.  A token that ends an answer never is one."""

    drop_special_tokens: StrictBool
    drop_whitespace_only: StrictBool
    drop_digit_only: StrictBool


@dataclass(frozen=True)
class Run(JsonRecord):
    """All that a task must know of its run; the orchestrator puts it into the store once."""

    id: str
    seed: int
    target: Target
    judge: Judge
    reflector: Reflector
    endpoint: Endpoint
    objective: Objective
    clusters: Clusters
    evaluation_cache: bool
    reflector_context_tokens: int = 0  # of the reflector's prompt and reply together; 0 is no limit
    pinned_clusters: tuple[int, ...] = ()  # positions of the clusters whose deltas the search does not change
    whole: bool = True  # else every answer counts as whole


@dataclass(frozen=True)
class JobSpec(JsonRecord):
    task: str  # Celery's name of it
    label: str  # what a person calls the job, without spaces
    arguments: Mapping[str, Any]
    limit_s: float | None = None  # the hard time limit; None is the one that holds for all tasks


SHORTEST_PREFIX = 6  # characters of a task id that may stand for the whole


@dataclass(frozen=True)
class Failure(JsonRecord):
    """One failed task."""

    run: str
    record: str  # the plan, or "jobs" for a task outside a plan
    name: str  # finds the task in its record: the index of a candidate, the key of a job
    node: str  # what a person calls it: the individual's id in the tree, the label of a job
    stage: str
    error: str
    task: str  # Celery's id
    tries: int  # of the task, also by `retry`; those of a call in it are in `error`
    at: Moment
    attempt: int  # of the message; a failure of an earlier attempt at the record is out of date

    def is_called(self, name: str) -> bool:
        """Whether `name` is the node, the task's id, or the beginning of the id."""
        return name in (self.node, self.task) or (len(name) >= SHORTEST_PREFIX and self.task.startswith(name))
