"""The compose files: nothing is root that need not be, no port is open, and a service has its own secrets alone.

The images are built with the files of the wheel.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from workers.app import SOFT_SHUTDOWN_S

ROOT = Path(__file__).parents[2]
FILES = [yaml.safe_load((ROOT / name).read_text()) for name in ("docker-compose.yml", "compose.monitoring.yml")]
SERVICES: dict[str, dict[str, Any]] = FILES[0]["services"] | FILES[1]["services"]
MADE = set(re.findall(r"^keep (\w+/\w+)", (ROOT / "ops" / "secrets.sh").read_text(), re.MULTILINE)) | {
    "socket/valkey.sock"
}
BECOMES_OWNER = {"SETUID", "SETGID", "KILL"}
# What begins as root, and the only capabilities that it has.
ROOT_WITH = {"secrets": {"CHOWN", "DAC_OVERRIDE", "FOWNER"}, "flower": BECOMES_OWNER, "orchestrator": BECOMES_OWNER}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_the_secrets_that_it_reads_and_can_do_no_more_than_it_must(name: str) -> None:
    service = SERVICES[name]
    read = set(re.findall(r"/run/secrets/(\w+/[\w.]+)", str(service.get("environment", {}))))
    assert read <= MADE
    mounted = set(re.findall(r"\./secrets/(\w+):/run/secrets/", str(service.get("volumes", []))))
    assert mounted == {path.partition("/")[0] for path in read}
    assert service["read_only"] and service["init"] and service["cap_drop"] == ["ALL"]
    assert set(service.get("cap_add", [])) == ROOT_WITH.get(name, set())
    assert ("user" in service) == (name in ROOT_WITH), "the others have the user of their image"
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), "for this machine alone"
    assert service["mem_limit"] and service["pids_limit"] and service["cpu_quota"]
    assert int(service["stop_grace_period"].removesuffix("s")) > 3 * SOFT_SHUTDOWN_S


def test_only_what_calls_somebody_outside_has_a_way_out() -> None:
    networks = FILES[0]["networks"] | FILES[1]["networks"]
    assert {name for name, options in networks.items() if not options.get("internal")} == {"front", "outside"}
    assert networks["front"]["driver_opts"] == {"com.docker.network.bridge.enable_ip_masquerade": "false"}
    members = {name: {n for n, s in SERVICES.items() if name in s.get("networks", [])} for name in networks}
    assert members["outside"] == {"worker-openai", "worker-gpu", "orchestrator"}
    assert members["front"] == {"flower", "grafana"}
    assert SERVICES["valkey"]["networks"] == ["broker"]
    assert SERVICES["secrets"]["network_mode"] == "none"


def test_without_a_profile_the_farm_is_on_the_cpu() -> None:
    started = {name for name, service in FILES[0]["services"].items() if "profiles" not in service}
    assert started == {"secrets", "valkey", "worker-openai", "worker-cpu", "worker-target", "rules", "flower"}


@pytest.mark.parametrize("image", ["farm", "flower", "gpu"])
def test_an_image_is_built_with_all_files_that_its_wheel_holds(image: str) -> None:
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    copied = re.findall(r"^COPY (.*)$", (ROOT / "ops" / image / "Dockerfile").read_text(), re.MULTILINE)
    assert {*targets["wheel"]["force-include"]} <= {name for line in copied for name in line.split()}
