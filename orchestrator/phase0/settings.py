"""What a collection is told to do: every key of phase0_collect.md section 3, as frozen dataclasses.

The names of the fields are the keys, so that `dataclasses.asdict` gives the file back.  None has a default.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sglang:
    """The server of the target. `timeout_s` bounds one request, `max_retries` counts the tries after the first."""

    base_url: str
    timeout_s: float
    max_retries: int


@dataclass(frozen=True)
class Target:
    """The model that answers (section 3.1). `prompt_template` has {context} and {query}; sample j uses seed + j."""

    model_id: str
    sglang: Sglang
    temperature: float
    top_p: float
    max_new_tokens: int
    seed: int
    prompt_template: str


@dataclass(frozen=True)
class Reflector:
    """The model that compresses (section 3.2). `compress_prompt_template` has {query} and {prev_answer}."""

    model_id: str
    api: str
    temperature: float
    top_p: float
    max_new_tokens: int
    seed: int
    compress_prompt_template: str
    api_base: str
    api_key_env: str


@dataclass(frozen=True)
class SplitRatios:
    """Parts of the questions; they add up to 1."""

    train: float
    val: float
    test: float


@dataclass(frozen=True)
class Data:
    financebench_path: str
    split_ratios: SplitRatios


@dataclass(frozen=True)
class FilterSwitches:
    """Which tokens are no candidates (section 4.10)."""

    drop_special_tokens: bool
    drop_whitespace_only: bool
    drop_digit_only: bool


@dataclass(frozen=True)
class Correctness:
    """The judge (section 6). `tolerance` is a relative error; a pair is kept when its score reaches `threshold`."""

    metric: str
    threshold: float
    tolerance: float
    evaluator_model: str
    evaluator_api_base: str
    evaluator_api_key_env: str
    qualitative_forgiving: bool
    evaluator_temperature: float
    evaluator_top_p: float
    evaluator_max_new_tokens: int
    evaluator_seed: int


@dataclass(frozen=True)
class Phase0:
    """`verbose_num_samples` answers a question, `k` tokens to find; concurrencies are calls in flight on the farm."""

    verbose_num_samples: int
    k: int
    filters: FilterSwitches
    output_path: str
    correctness: Correctness
    target_concurrency: int
    reflector_concurrency: int
    judge_concurrency: int


@dataclass(frozen=True)
class CollectSettings:
    """The whole file."""

    seed: int
    device: str
    output_dir: str
    log_level: str
    target: Target
    reflector: Reflector
    data: Data
    phase0: Phase0
