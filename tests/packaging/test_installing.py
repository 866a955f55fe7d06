"""uv is told what pip is told, and pip installs where that cannot be."""

from __future__ import annotations

import subprocess
from typing import Any

import installing
import pytest


def test_uv_is_told_where_pip_looks():
    told = installing.variables_for_uv(
        [
            ":env:.cert='/etc/ssl/all.crt'",
            ":env:.default-timeout='180'",
            ":env:.find-links='/mine'",
            "global.extra-index-url='file:///one/simple\\nfile:///two/simple'",
            "global.find-links='/all'",
            "global.index-url='https://mirror/simple'",
            "install.find-links='/installs /more'",
            "wheel.no-deps='1'",
        ]
    )
    assert told == {
        "SSL_CERT_FILE": "/etc/ssl/all.crt",
        "UV_DEFAULT_INDEX": "https://mirror/simple",
        "UV_FIND_LINKS": "/mine",
        "UV_INDEX": "file:///one/simple file:///two/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    assert installing.variables_for_uv(["install.find-links='/one /two'"])["UV_FIND_LINKS"] == "/one,/two"


@pytest.mark.parametrize("setting", ["global.proxy='p:1'", ":env:.constraint='c.txt'", "install.no-index='1'"])
def test_a_setting_that_uv_does_not_know_is_left_to_pip(setting: str):
    assert installing.variables_for_uv([setting]) is None


@pytest.mark.parametrize(("failing", "last"), [("", "uv"), ("config", "pip"), ("uv", "pip"), ("-m uv", "pip")])
def test_pip_installs_where_uv_does_not(failing: str, last: str, monkeypatch: pytest.MonkeyPatch):
    """Pip's settings cannot be read; the registry has no uv; uv fails."""
    started: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        started.append(command)
        words = " ".join(command)
        failed = failing and (words.endswith(failing) or f"{failing} " in words)
        return subprocess.CompletedProcess(command, int(bool(failed)), "", "")

    monkeypatch.setattr(subprocess, "run", run)
    asked = ["-c", "constraints.txt", "-e", ".[dev]"]
    assert installing.main(asked) == 0
    assert started[-1][2] == last
    assert started[-1][-4:] == asked
    assert all("-c" in command for command in started if "install" in command)
