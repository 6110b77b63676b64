"""Checks the manifests against the schemas of Kubernetes and KEDA: `make k8s`.  Exit 1 with a line for each mistake."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudcoil.models.keda.v1alpha1 as keda
import kubernetes_validate
import yaml
from pydantic import ValidationError

KUBERNETES = "1.33"
NO_OBJECT = ("kustomization.yaml",)


def mistakes(found: dict[str, Any]) -> list[str]:
    """The mistakes of one object; unknown fields are mistakes too."""
    try:
        if found["apiVersion"].startswith("keda.sh/"):
            model = getattr(keda, found["kind"])
            read = model.model_validate(found).model_dump(by_alias=True, exclude_none=True, mode="json")
            return [f"{path}: unknown to {found['kind']}" for path in lost(found, read)]
        kubernetes_validate.validate(found, KUBERNETES, strict=True)
    except ValidationError as error:
        return [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    except kubernetes_validate.ValidationError as error:
        return [f"{'.'.join(map(str, error.path))}: {error.message}"]
    return []


def lost(written: Any, read: Any, path: str = "") -> list[str]:
    """Paths of fields that the model has dropped, because it does not know them."""
    if isinstance(written, dict):
        gone = [f"{path}.{key}" for key in written if key not in read]
        return gone + [p for key in written if key in read for p in lost(written[key], read[key], f"{path}.{key}")]
    if isinstance(written, list):
        return [p for n, (w, r) in enumerate(zip(written, read, strict=True)) for p in lost(w, r, f"{path}.{n}")]
    return []


def main() -> None:
    wrong = count = 0
    for path in sorted(Path(__file__).parent.glob("*.yaml")):
        if path.name in NO_OBJECT:
            continue
        for found in yaml.safe_load_all(path.read_text("utf-8")):
            count += 1
            for mistake in mistakes(found):
                wrong += 1
                print(f"{path.name}: {found['kind']} {found['metadata']['name']}: {mistake}", file=sys.stderr)
    print(f"{count} objects checked against Kubernetes {KUBERNETES} and KEDA, {wrong} mistakes")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
