"""The manifests name only images, secrets, claims and services that are there.  `make k8s` checks them by schema."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "ops" / "k8s"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    found
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for found in yaml.safe_load_all(path.read_text())
]
SECRET = next(found for found in OBJECTS if found["kind"] == "Secret")


def named(kind: str) -> set[str]:
    return {found["metadata"]["name"] for found in OBJECTS if found["kind"] == kind}


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for found in OBJECTS:
        if template := found["spec"].get("template") if "spec" in found else None:
            yield found["metadata"]["name"], template["spec"]


each_pod = pytest.mark.parametrize("pod", [pytest.param(spec, id=name) for name, spec in pods()])


def test_all_files_are_in_the_kustomization_but_what_a_person_makes() -> None:
    by_hand = {"kustomization.yaml", "secret.template.yaml", "orchestrator.yaml"}
    assert set(KUSTOMIZATION["resources"]) == {path.name for path in FOLDER.glob("*.yaml")} - by_hand


def test_the_secret_has_what_make_secrets_makes() -> None:
    made = re.findall(r"^keep \w+/(\w+)", (ROOT / "ops" / "secrets.sh").read_text(), re.MULTILINE)
    assert set(SECRET["stringData"]) == set(made)


@each_pod
def test_a_pod_uses_our_images_and_what_is_there(pod: dict[str, Any]) -> None:
    ours = {image["name"] for image in KUSTOMIZATION["images"]}
    for container in pod["containers"]:
        assert container["image"].partition(":")[0] in ours
        volumes = {volume["name"] for volume in pod["volumes"]} | {"data"}  # the claim of a StatefulSet's template
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        for variable in container.get("env", []):
            if host := re.search(r"://(\w+):\d+", variable["value"]):
                assert host[1] in named("Service")
    for volume in pod["volumes"]:
        if "secret" in volume:
            assert volume["secret"]["secretName"] == SECRET["metadata"]["name"]
            assert {item["key"] for item in volume["secret"]["items"]} <= set(SECRET["stringData"])
        if claim := volume.get("persistentVolumeClaim"):
            assert claim["claimName"] in named("PersistentVolumeClaim")


@each_pod
def test_a_pod_is_what_the_restricted_standard_wants(pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


@each_pod
def test_a_pod_has_limits_of_all_that_it_uses(pod: dict[str, Any]) -> None:
    for container in pod["containers"]:
        assert {"cpu", "memory", "ephemeral-storage"} <= set(container["resources"]["limits"])
    for volume in pod["volumes"]:
        assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"]


@each_pod
def test_a_pod_that_serves_or_works_has_probes(pod: dict[str, Any]) -> None:
    if pod.get("restartPolicy") != "OnFailure":  # a job ends by itself
        assert all({"livenessProbe", "readinessProbe"} <= set(container) for container in pod["containers"])


def test_each_pod_may_connect_only_where_it_must() -> None:
    """By name of the app: what it may connect to, beside the names of the cluster."""
    apps = {label for found in OBJECTS for label in [pod_labels(found).get("app")] if label}
    allowed: dict[str, set[str]] = {app: set() for app in apps}
    policies = {found["metadata"]["name"]: found["spec"] for found in OBJECTS if found["kind"] == "NetworkPolicy"}
    assert policies["deny-all"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name, spec in policies.items():
        for app in selected(spec["podSelector"], apps):
            if name != "names":
                allowed[app] |= {f"port {port['port']}" for rule in spec.get("egress", []) for port in rule["ports"]}
    assert allowed == {
        "valkey": set(),
        "flower": {"port 6379"},
        "metrics": {"port 6379"},
        "orchestrator": {"port 6379"},
        "worker-cpu": {"port 6379"},
        "worker-openai": {"port 6379", "port 443"},
        "worker-gpu": {"port 6379", "port 443"},
    }
    [rule] = policies["valkey"]["ingress"]
    assert selected(rule["from"][0]["podSelector"], apps) == apps - {"valkey"}


def pod_labels(found: dict[str, Any]) -> dict[str, str]:
    """The labels of the pods that an object makes; none for another object."""
    return found.get("spec", {}).get("template", {}).get("metadata", {}).get("labels", {})


def selected(selector: dict[str, Any], apps: set[str]) -> set[str]:
    """The apps that a selector of a NetworkPolicy selects."""
    if expressions := selector.get("matchExpressions"):
        [expression] = expressions
        assert (expression["key"], expression["operator"]) == ("app", "In")
        return set(expression["values"]) & apps
    return {selector["matchLabels"]["app"]} if selector else set(apps)


def test_valkey_has_half_of_its_container_for_data() -> None:
    [valkey] = [found for found in OBJECTS if found["kind"] == "StatefulSet"]
    [container] = valkey["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert (variables["VALKEY_MAXMEMORY"], container["resources"]["limits"]["memory"]) == ("1gb", "2Gi")


def test_our_images_have_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {image["newTag"] for image in KUSTOMIZATION["images"]} == {version}
    images = {container["image"] for _, pod in pods() for container in pod["containers"] if ":" in container["image"]}
    assert images == {f"whetstone-farm:{version}"}


def test_what_scales_is_there_and_waits_for_lists_that_are_queues() -> None:
    from tasks.queues import QUEUES

    scaled = {found["metadata"]["name"]: found["spec"] for found in OBJECTS if found["kind"] == "ScaledObject"}
    for spec in scaled.values():
        assert spec["scaleTargetRef"]["name"] in named("Deployment")
        assert {trigger["authenticationRef"]["name"] for trigger in spec["triggers"]} <= named("TriggerAuthentication")
    assert {trigger["metadata"]["listName"] for spec in scaled.values() for trigger in spec["triggers"]} == set(QUEUES)


def test_a_farm_is_not_taken_for_idle_while_a_task_runs() -> None:
    from workers.app import HARD_TIME_LIMIT_S

    for found in OBJECTS:
        if found["kind"] == "ScaledObject":
            assert found["spec"]["cooldownPeriod"] > HARD_TIME_LIMIT_S
