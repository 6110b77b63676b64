"""A list of biases, one a token, for servers that take `logit_bias` in a request; and the part of it that OpenAI takes.

Adding the same amount to all logits changes no answer, so a list is relative to the bias that most tokens have, and
those tokens are left out.  OpenAI documents biases from -100 to 100, and refuses more than 300 tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.export.steering import ExportedSteering
from tasks.gpu.processor_template import min_tokens_sentence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OPENAI_TOKENS, OPENAI_BIAS = 300, 100.0
LIMITS = f"OpenAI takes biases from -{OPENAI_BIAS:g} to {OPENAI_BIAS:g}, of at most {OPENAI_TOKENS} tokens"
MIN_TOKENS_HELP = (
    'Each request needs "min_tokens": $count, as vLLM and SGLang know it in OpenAI\'s protocol. OpenAI itself and '
    "llama-server have no such setting: for them take a smaller bias of the tokens that end a turn, or a run with "
    "CONFIG_STEERED_MIN_NEW_TOKENS=0."
)
NO_EFFECT = "not measured; `orchestrator export --measure` asks the model"


@dataclass(frozen=True)
class BiasEffect:
    """What a list does, measured: mean tokens of greedy answers to `questions` questions of the set `of`.

    `share_of_saving_kept` is the part of what all biases save (or add) that the list keeps; None where they change
    the mean by less than half a token.
    """

    questions: int
    of: str
    plain: float
    all_biases: float
    these_biases: float

    @property
    def share_of_saving_kept(self) -> float | None:
        change = self.plain - self.all_biases
        return None if abs(change) < 0.5 else (self.plain - self.these_biases) / change

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "share_of_saving_kept": self.share_of_saving_kept}


def relative_biases(steering: ExportedSteering) -> NDArray[np.float64]:
    """The bias of each token [V], relative to the one that most tokens have."""
    import numpy as np

    by_cluster = np.asarray([steering.deltas[str(cluster)] for cluster in range(len(steering.deltas))])
    biases = np.take(by_cluster, steering.labels)
    values, counts = np.unique(biases, return_counts=True)
    return np.asarray(biases - values[counts.argmax()])


@dataclass(frozen=True, eq=False)
class ChosenBiases:
    """The tokens that matter most: by |bias| x how often the run's answers use the token, then by |bias|.

    `biases` [V] are those of all tokens, `chosen` the ids in the order of their weight; `share_of_weight` is theirs of
    the weight of all.
    """

    biases: NDArray[np.float64]
    chosen: tuple[int, ...]
    share_of_weight: float

    @property
    def limited(self) -> NDArray[np.float64]:
        """The biases of the chosen tokens [V], within OpenAI's limits, and 0 for all others."""
        import numpy as np

        kept = np.zeros_like(self.biases)
        kept[list(self.chosen)] = np.clip(self.biases[list(self.chosen)], -OPENAI_BIAS, OPENAI_BIAS)
        return kept


def choose_biases(biases: NDArray[np.float64], counts: Mapping[int, int], most: int = OPENAI_TOKENS) -> ChosenBiases:
    """`counts`: how often the answers use each token."""
    import numpy as np

    used = np.zeros(len(biases))
    for token, count in counts.items():
        if token < len(used):
            used[token] = count
    weights = np.abs(biases) * used
    order = np.lexsort((np.arange(len(biases)), -np.abs(biases), -weights))
    chosen = tuple(int(token) for token in order[:most] if biases[token] != 0)
    total = float(weights.sum())
    return ChosenBiases(biases, chosen, float(weights[list(chosen)].sum()) / total if total else 1.0)


def bias_document(steering: ExportedSteering, system_prompt: str | None) -> str:
    """The text of a file with the biases of all tokens."""
    biases = relative_biases(steering)
    tokens = [int(token) for token in biases.nonzero()[0]]
    use = 'send "logit_bias" with each request, to a server that adds as many biases as it is told to'
    return _document(steering, biases, tokens, {"use": use, **_model(steering, system_prompt), "tokens": len(tokens)})


def openai_document(
    steering: ExportedSteering, chosen: ChosenBiases, system_prompt: str | None, effect: BiasEffect | None
) -> str:
    """The text of a file that OpenAI's limits allow, with what it keeps."""
    about = {
        "use": 'send "logit_bias" with each request, to a server of OpenAI\'s protocol that has this model',
        "limits": LIMITS,
        **_model(steering, system_prompt),
        "tokens": len(chosen.chosen),
        "of": int((chosen.biases != 0).sum()),
        "share_of_weight": round(chosen.share_of_weight, 4),
        "weight": "|bias| x how often the answers of the run, plain and steered, use the token",
        "effect": NO_EFFECT if effect is None else effect.document(),
    }
    return _document(steering, chosen.limited, chosen.chosen, about)


def _model(steering: ExportedSteering, system_prompt: str | None) -> dict[str, Any]:
    check = steering.check
    hashes = {"config_sha256": check["config"], "tokenizer_sha256": check["tokenizer"]}
    sentence = min_tokens_sentence(MIN_TOKENS_HELP, steering.min_new_tokens).replace("\n", " ")
    found = {"model": check["name"], **hashes, "individual": steering.node or "winner", "system_prompt": system_prompt}
    return {"min_tokens": sentence, **found} if sentence else found


def _document(
    steering: ExportedSteering, biases: NDArray[np.float64], tokens: Sequence[int], about: Mapping[str, Any]
) -> str:
    listed = {str(token): round(float(biases[token]), 9) for token in sorted(tokens)}
    head = json.dumps({"about": {"by": "Whetstone", **about, "clustering": steering.clustering}}, indent=2)
    return f'{head[:-2]},\n  "logit_bias": {json.dumps(listed)}\n}}\n'
