"""A secret is a variable or a file, and a file that cannot be read is said so without what others hold."""

from pathlib import Path

import pytest

from tasks.common.logs import SecretError, secret


def test_a_secret_is_what_its_file_holds(tmp_path: Path) -> None:
    # given a file as `echo` or an editor writes it, with a line end
    (tmp_path / "key").write_text("sk-1\n")
    environment = {"KEY_FILE": str(tmp_path / "key")}

    assert secret("KEY", environment) == "sk-1"

    # when it is changed, then the next who asks has the new one
    (tmp_path / "key").write_text("sk-2\n")
    assert secret("KEY", environment) == "sk-2"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match=r"^KEY_FILE: .*nowhere cannot be read: No such file or directory$"):
        secret("KEY", {"KEY_FILE": str(tmp_path / "nowhere")})
    with pytest.raises(SecretError, match=r"^KEY_FILE: .* cannot be read: Is a directory$"):
        secret("KEY", {"KEY_FILE": str(tmp_path)})
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SecretError, match=r"^KEY_FILE: .*binary is not UTF-8 text$"):
        secret("KEY", {"KEY_FILE": str(tmp_path / "binary")})
