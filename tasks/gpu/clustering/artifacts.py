"""A finished clustering on disk: one folder, named by the hash of its inputs (manifest.json), complete or absent.

Labels are an array [V] of uint8 or uint16, the cluster of each token id.  Beside them are the descriptions of the
clusters, in the order of ids; by meaning also the embeddings [V, dimension], the PCA and the centres of k-means, of
which row k belongs to cluster k + 2; by waste {eos, pinned, log_odds}.
A .joblib file is a pickle, which runs code when it is loaded: it is written for other programs and never read.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from tasks.common.files import folder_atomic, remove_unfinished
from tasks.common.text import first_line
from tasks.gpu.clustering.vocabulary import REPLACEMENT, Vocabulary
from tasks.records import ClusterFigures

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 2  # of the algorithms: raised whenever equal inputs would give other labels

LABELS_KMEANS, LABELS_WASTE = "labels_kmeans.npy", "labels_waste.npy"
EMBEDDINGS, MANIFEST = "embeddings.npy", "manifest.json"
DESCRIPTIONS, FIGURES = "cluster_descriptions.json", "cluster_figures.json"
EXAMPLES, _SHOWN = 12, 5  # tokens of a cluster that are listed, and that its description names
_LONGEST = 24  # characters of an example
_ABANDONED_S = 3600.0  # a clustering is written in seconds
_UNREADABLE = (OSError, EOFError, ValueError, KeyError)

Progress = Callable[[str, int, int], None]  # (stage, done, total) in tokens: decode, embed, reduce, cluster, write


class ClusteringError(Exception):
    """The vocabulary could not be clustered, or a finished clustering could not be read; one line."""


def cannot_load(what: str, name: str | Path, error: Exception) -> ClusteringError:
    """Of a model, a folder or a Hugging Face id."""
    path = Path(name)
    if (path.is_absolute() or str(name).startswith((".", "~"))) and not path.is_dir():
        return ClusteringError(f'the {what} "{name}" cannot be loaded: there is no such folder')
    return ClusteringError(f'the {what} "{name}" cannot be loaded: {first_line(error)}')


class Description(TypedDict):
    """One cluster as `cluster_descriptions.json` has it; `examples` are texts of tokens."""

    id: int
    description: str
    examples: list[str]
    count: int


@dataclass(frozen=True, eq=False)
class Clustering:
    hash: str
    folder: Path
    labels: NDArray[Any]  # [V] uint8 (uint16 above 256 clusters), read-only
    descriptions: list[Description]
    figures: ClusterFigures = ClusterFigures()  # noqa: RUF009  (it is frozen)


def manifest_of(vocabulary: Vocabulary, summary: Mapping[str, Any], *more: Any) -> dict[str, Any]:
    """What determines a clustering, with its "hash".  `more` counts too, and is too long to be written."""
    fixed = {"tokens": len(vocabulary.texts), "ends": sorted(vocabulary.ends), "numbers": sorted(vocabulary.numbers)}
    whole = {"version": VERSION, **fixed, **summary}
    return {"hash": hash_of(vocabulary.texts, *more, whole), **whole}


def hash_of(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, ensure_ascii=True, sort_keys=True).encode()).hexdigest()[:32]


def made_once(root: Path, manifest: Mapping[str, Any], make: Callable[[], Mapping[str, Any]]) -> Clustering:
    """The clustering of a manifest; `make` gives the content of each file where there is no folder `<root>/<hash>`.

    The ending of a name says how its content is written.
    """
    import joblib
    import numpy as np

    folder = root / manifest["hash"]
    if not folder.is_dir():
        files = {**make(), MANIFEST: manifest}
        root.mkdir(parents=True, exist_ok=True)
        remove_unfinished(root, older_than_s=_ABANDONED_S)
        with folder_atomic(folder) as work:
            for name, content in files.items():
                match Path(name).suffix:
                    case ".joblib":
                        joblib.dump(content, work / name)
                    case ".npy":
                        np.save(work / name, content, allow_pickle=False)
                    case _:
                        text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
                        (work / name).write_text(text, encoding="utf-8")
    return load_clustering(folder)


def labels_type(clusters: int) -> type[np.unsignedinteger[Any]]:
    import numpy as np

    return np.uint8 if clusters <= 256 else np.uint16


def load_clustering(folder: Path) -> Clustering:
    name = LABELS_WASTE if (folder / LABELS_WASTE).exists() else LABELS_KMEANS
    figures = ClusterFigures()
    try:
        labels = _array(folder / name)
        descriptions = json.loads((folder / (name := DESCRIPTIONS)).read_bytes())
        if (folder / (name := FIGURES)).exists():
            figures = ClusterFigures.from_json((folder / name).read_bytes())
    except _UNREADABLE as error:
        raise ClusteringError(
            f"{folder} holds no complete clustering ({name}: {error}); delete the folder to make it anew"
        ) from error
    labels.setflags(write=False)
    return Clustering(folder.name, folder, labels, descriptions, figures)


def find_embeddings(root: Path, embedded: str) -> NDArray[Any] | None:
    """The embeddings of another clustering with this hash of vocabulary and embedder, or None."""
    for path in sorted(root.glob(f"*/{MANIFEST}")):
        with suppress(*_UNREADABLE):  # that clustering reports it when it is loaded
            if json.loads(path.read_bytes()).get("embedded") == embedded:
                return _array(path.with_name(EMBEDDINGS))
    return None


def _array(path: Path) -> NDArray[Any]:
    import numpy as np

    found: NDArray[Any] = np.load(path, allow_pickle=False)
    return found


def distinct_texts(texts: Iterable[str], most: int = EXAMPLES) -> list[str]:
    """The first `most` texts that differ in more than case and outer white space, without that white space."""
    texts_by_word: dict[str, str] = {}
    for text in texts:
        word = (text.strip() or text)[:_LONGEST]
        texts_by_word.setdefault(word.casefold(), word)
        if len(texts_by_word) == most:
            break
    return list(texts_by_word.values())


def quoted(texts: Sequence[str]) -> str:
    return ", ".join(json.dumps(text, ensure_ascii=False) for text in texts)


# A description for the reflector, the report and the generated processor: the most frequent kinds of token, a few
# common tokens, and a few at the cluster's centre.  Common means a low id: vocabularies are ordered by frequency.
_MARKER = re.compile(r"<[^<>\s]+>|\[(?:[A-Z]{2,}|unused\d+)\]")
_CODE = re.compile(r"[_(){}\[\]<>;=\\/`$#@|]|[a-z][A-Z]|[A-Za-z]\.[A-Za-z]")


def describe_fixed(cluster: int, what: str, texts: Sequence[str], ids: Iterable[int]) -> Description:
    members = sorted(ids)
    examples = distinct_texts(texts[i] for i in members)
    named = f": {quoted(examples)}" if examples else " (this vocabulary has none)"
    return Description(id=cluster, description=what + named, examples=examples, count=len(members))


def describe_nearest(
    cluster: int, texts: Sequence[str], ids: NDArray[np.int64], distances: NDArray[np.float32]
) -> Description:
    """Of a k-means cluster of the tokens `ids` [n], `distances` [n] from its centre."""
    nearest = [i for _, i in sorted(zip(distances.tolist(), ids.tolist(), strict=True))]
    central = distinct_texts((texts[i] for i in nearest), _SHOWN)
    inner = [texts[i] for i in sorted(nearest[: max(_SHOWN, len(nearest) // 4)])]
    # Single letters and markers have the lowest ids and do not describe a cluster with words in it.
    words = [text for text in inner if len(text.strip()) > 1 and token_kind(text) != "markers"] or inner
    common = distinct_texts(words)
    examples = distinct_texts([*common[: EXAMPLES - _SHOWN], *central])
    text = (
        f"{_kinds([texts[i] for i in ids])}; common ones: {quoted(common[:_SHOWN])}; at its centre: {quoted(central)}"
    )
    return Description(id=cluster, description=text, examples=examples, count=len(ids))


def token_kind(text: str) -> str:
    """What kind of token has this text, as a plural."""
    word = text.strip()
    letters = [c for c in word if c.isalpha()]
    kinds = {
        "unused tokens": not text,
        "white space": not word,
        "parts of characters": REPLACEMENT in word,
        "markers": _MARKER.fullmatch(word),
        "punctuation": not any(c.isalnum() for c in word),
        "numbers with other characters": not letters,
        "tokens of other scripts": any(not unicodedata.name(c, "").startswith("LATIN") for c in letters),
        "pieces of code": _CODE.search(word),
        "words in capitals": len(letters) > 1 and word.isupper(),
        "capitalised words": word[:1].isupper(),
        "words": text[:1].isspace(),
        "word pieces": True,
    }
    return next(kind for kind, holds in kinds.items() if holds)


def _kinds(texts: Sequence[str]) -> str:
    """The kinds that make up most of the texts, such as "Words (61 %) and word pieces (25 %)"."""
    counted = sorted(Counter(map(token_kind, texts)).items(), key=lambda item: (-item[1], item[0]))
    shares = [(kind, round(100 * count / len(texts))) for kind, count in counted]
    named = [f"{kind} ({share} %)" for kind, share in shares[:3] if share >= 20 or kind == shares[0][0]]
    joined = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return joined[0].upper() + joined[1:]
