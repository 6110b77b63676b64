"""The compose file names only what is there, starts nothing as root that need not be, and shows nobody a port."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from workers.app import SOFT_SHUTDOWN_S

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
MADE = set(re.findall(r"^keep (\w+)", (ROOT / "ops" / "secrets.sh").read_text(), re.MULTILINE))
each_service = pytest.mark.parametrize("name", SERVICES)


def default(text: str) -> str:
    """What a value with ${NAME:-default} comes to when nothing is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_it_is_for_the_old_compose_as_well() -> None:
    # Debian's docker-compose 1.29 refuses the one, and reads the other as the format of ten years ago.
    assert not {"name", "version"} & set(COMPOSE)
    assert all(set(after) == {"condition"} for s in SERVICES.values() if isinstance(s.get("depends_on"), dict)
               for after in s["depends_on"].values())  # fmt: skip


def test_a_secret_is_a_file_that_make_secrets_makes() -> None:
    assert {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()} == set(COMPOSE["secrets"]) == MADE
    assert {name for service in SERVICES.values() for name in service.get("secrets", [])} <= MADE


@each_service
def test_a_service_is_built_from_files_that_are_there(name: str) -> None:
    service = SERVICES[name]
    if build := service.get("build"):
        assert (ROOT / build["dockerfile"]).is_file()
        stages = re.findall(r" AS (\w+)$", (ROOT / build["dockerfile"]).read_text(), re.MULTILINE)
        assert build.get("target") in (*stages, None)
    else:
        assert re.search(r":v?\d+\.\d+\.\d+(@sha256:[0-9a-f]{64})?$", service["image"]), (
            "somebody else's image has a version"
        )
    for volume in service.get("volumes", []):
        source = default(volume).split(":")[0]
        made_by_secrets = source in ("./outputs", "./data")
        assert made_by_secrets or (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]


@each_service
def test_a_service_can_do_no_more_than_it_must(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] and service["init"] and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "max-size" in service["logging"]["options"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), "for this machine alone"
    assert not any(re.search("PASSWORD|(^|_)KEY", key) for key in service.get("environment", {})
                   if not key.endswith("FILE"))  # fmt: skip


@each_service
def test_a_service_has_limits(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"\d+g", default(str(service["mem_limit"])))
    assert 0 < service["pids_limit"] <= 8192
    assert service["cpu_quota"] >= 100_000 and "cpus" not in service, "Docker refuses both, and more than the host has"


def test_only_what_calls_somebody_outside_has_a_way_out() -> None:
    networks = COMPOSE["networks"]
    closed = {name for name, options in networks.items() if options and options.get("internal")}
    assert closed == {"broker", "endpoint", "monitoring"}
    assert "false" in str(networks["front"]["driver_opts"])
    members = {name: {n for n, s in SERVICES.items() if name in s["networks"]} for name in networks}
    gpus = {name for name in SERVICES if name.startswith("worker-gpu-")}
    assert members["outside"] == {"worker-openai", "orchestrator", *gpus}
    assert members["front"] == {name for name, service in SERVICES.items() if "ports" in service}
    users = {n for n, s in SERVICES.items() if "WHETSTONE_REDIS_URL" in s.get("environment", {})}
    assert members["broker"] == {"valkey", *users}
    assert SERVICES["valkey"]["networks"] == ["broker"]


def test_valkey_has_less_data_than_its_container_has_memory() -> None:
    valkey = SERVICES["valkey"]
    data, memory = default(valkey["environment"]["VALKEY_MAXMEMORY"]), default(valkey["mem_limit"])
    assert 2 * int(data.removesuffix("gb")) <= int(memory.removesuffix("g"))
    assert "maxmemory-policy noeviction" in (ROOT / "ops" / "valkey" / "valkey.conf").read_text()


def test_our_images_have_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    ours = [service["image"] for service in SERVICES.values() if "build" in service]
    assert {default(image).partition(":")[2] for image in ours} == {version}


@each_service
def test_a_service_has_time_to_give_its_tasks_back(name: str) -> None:
    assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) > 3 * SOFT_SHUTDOWN_S


def test_a_gpu_has_one_service_and_one_folder() -> None:
    gpus = {name: service for name, service in SERVICES.items() if name.startswith("worker-gpu-")}
    for name, service in gpus.items():
        [device] = service["deploy"]["resources"]["reservations"]["devices"]
        assert [f"worker-gpu-{gpu}" for gpu in device["device_ids"]] == [name]
        assert service["environment"]["WHETSTONE_FARM"] == f"/cache/gpu-{device['device_ids'][0]}"
    for profile, count in (("gpu", 1), ("gpu-2", 2), ("gpu-4", 4), ("gpu-8", 8)):
        chosen = sorted(name for name, service in gpus.items() if profile in service["profiles"])
        assert chosen == [f"worker-gpu-{gpu}" for gpu in range(count)]


def test_without_a_profile_a_farm_has_all_but_a_target() -> None:
    assert {n for n, s in SERVICES.items() if "profiles" not in s} >= {"valkey", "worker-openai", "worker-cpu"}


def test_the_images_get_nothing_that_must_stay_here() -> None:
    kept = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert kept[0] == "*", "all is left out that is not named"
    assert not any(name in line for line in kept[1:] for name in ("secrets", "outputs", ".env", ".git"))
