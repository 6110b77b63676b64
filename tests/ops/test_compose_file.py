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
MADE = set(re.findall(r"^keep (\w+/\w+)", (ROOT / "ops" / "secrets.sh").read_text(), re.MULTILINE))
BECOMES_OWNER = {"SETUID", "SETGID", "KILL"}
# What begins as root, and the only capabilities that it has.
ROOT_WITH = {
    "secrets": {"CHOWN", "DAC_OVERRIDE", "FOWNER"},
    "flower": BECOMES_OWNER,
    "orchestrator": BECOMES_OWNER,
}
each_service = pytest.mark.parametrize("name", SERVICES)


def default(text: str) -> str:
    """What a value with ${NAME:-default} comes to when nothing is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_it_is_for_the_old_compose_as_well() -> None:
    # Debian's docker-compose 1.29 refuses the one, and reads the other as the format of ten years ago.
    assert not {"name", "version"} & set(COMPOSE)
    assert all(set(after) == {"condition"} for s in SERVICES.values() if isinstance(s.get("depends_on"), dict)
               for after in s["depends_on"].values())  # fmt: skip


def mounts(name: str) -> dict[str, tuple[str, str]]:
    """What a service mounts: source, target and mode by target."""
    parts = [default(volume).split(":") for volume in SERVICES[name].get("volumes", [])]
    return {target: (source, *(mode or ["rw"])) for source, target, *mode in parts}  # type: ignore[misc]


@each_service
def test_a_service_has_the_secrets_that_it_reads_and_no_other(name: str) -> None:
    environment = SERVICES[name].get("environment", {})
    read = {Path(value) for value in environment.values() if str(value).startswith("/run/secrets/")}
    read |= {Path("/run/secrets/socket/valkey.sock")} if name == "valkey" else set()
    made = {Path("/run/secrets") / secret for secret in MADE} | {Path("/run/secrets/socket/valkey.sock")}
    assert read <= made
    folders = {target: mount for target, mount in mounts(name).items() if "/secrets" in mount[0] and name != "secrets"}
    assert set(folders) == {str(path.parent) for path in read}
    assert all(source == f"./secrets/{Path(target).name}" for target, (source, _) in folders.items())
    assert {target for target, (_, mode) in folders.items() if mode != "ro"} <= {"/run/secrets/socket"}


def test_nothing_starts_before_the_secrets_are_there() -> None:
    waits = {name for name, service in SERVICES.items() if "secrets" in service.get("depends_on", {})}
    after_valkey = {name for name, service in SERVICES.items() if "valkey" in service.get("depends_on", {})}
    users = {name for name in SERVICES if any("/secrets" in source for source, _ in mounts(name).values())}
    assert users - {"secrets"} <= waits | after_valkey
    assert "valkey" in waits
    assert SERVICES["secrets"]["restart"] == "no"


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
        made_by_secrets = source in ("./outputs", "./data") or source.startswith("./secrets")
        assert made_by_secrets or (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]


@each_service
def test_a_service_can_do_no_more_than_it_must(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] and service["init"] and service["cap_drop"] == ["ALL"]
    assert set(service.get("cap_add", [])) == ROOT_WITH.get(name, set())
    assert ("user" in service) == (name in ROOT_WITH), "the others have the user of their image"
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "max-size" in service["logging"]["options"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), "for this machine alone"
    assert not any(re.search("PASSWORD|(^|_)KEY", key) for key in service.get("environment", {})
                   if not key.endswith("FILE"))  # fmt: skip


def test_a_volume_without_a_name_is_made_by_no_image() -> None:
    # The image of Valkey declares one at /data, and each `down` would leave it behind.
    of_valkey = {name for name, service in SERVICES.items() if "whetstone-valkey" in service["image"]}
    assert of_valkey == {"secrets", "valkey"}
    assert {name for name, service in SERVICES.items() if "/data" in service["tmpfs"]} == of_valkey


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
    members = {name: {n for n, s in SERVICES.items() if name in s.get("networks", [])} for name in networks}
    gpus = {name for name in SERVICES if name.startswith("worker-gpu-")}
    assert members["outside"] == {"worker-openai", "orchestrator", *gpus}
    assert members["front"] == {name for name, service in SERVICES.items() if "ports" in service}
    users = {n for n, s in SERVICES.items() if "WHETSTONE_REDIS_URL" in s.get("environment", {})}
    assert members["broker"] == {"valkey", *users}
    assert SERVICES["valkey"]["networks"] == ["broker"]
    assert [name for name, service in SERVICES.items() if not service.get("networks")] == ["secrets"]
    assert SERVICES["secrets"]["network_mode"] == "none"


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


def started(*profiles: str) -> set[str]:
    return {n for n, s in SERVICES.items() if "profiles" not in s or set(s["profiles"]) & set(profiles)}


def test_by_default_a_farm_has_the_embedded_target_and_with_a_profile_for_gpus_it_has_not() -> None:
    [chosen] = re.findall(r"^COMPOSE_PROFILES=(.*)$", (ROOT / ".env").read_text(), re.MULTILINE)
    common = {"secrets", "valkey", "worker-openai", "worker-cpu", "flower", "rules"}
    assert started(chosen) == common | {"worker-target"}
    assert started("gpu") == common | {"worker-gpu-0"}
    assert started() == common - {"rules"}


def test_two_clones_publish_no_port_twice() -> None:
    ports = [default(port) for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:5555-5599:5555", "127.0.0.1:3000-3044:3000"], "the first port that is free"


def test_the_images_get_nothing_that_must_stay_here() -> None:
    kept = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert kept[0] == "*", "all is left out that is not named"
    assert not any(name in line for line in kept[1:] for name in ("secrets", "outputs", ".env", ".git"))
    assert not re.search(r"(?i)(password|key|token|secret)\w*=", (ROOT / ".env").read_text()), "it is in the repository"
