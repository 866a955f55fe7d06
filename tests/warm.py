"""Processes that start with PyTorch loaded: forks of one process that has imported it and done nothing else.

A process of its own spends four seconds of a core on imports before a job begins. Tests that need many processes (to
kill, to interrupt, to run at once) take them from here; tests of what happens while a process starts do not. The
process that is forked has run no tensor operation and has one thread. Each process of pytest starts one, when a test
first asks for it, and ends it with itself. Tests that need other modules name them and share another one.

Where pytest runs in several processes, these are forks too (`python warm.py ADDRESS -c CODE`, in place of `python -c
CODE`), of one process that pytest starts and that they ask for their own forks: what tests import is loaded once.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

_PRELOADED = (
    "matplotlib.figure", "safetensors.torch", "scipy.stats", "sklearn.linear_model", "torch", "torch._dynamo",
    "privot.adaptation", "privot.cli.app", "privot.synthesis", "privot.synthesis.output.html_report", "privot.vault",
)  # fmt: skip


_TESTED = (
    *_PRELOADED, "cryptography.x509", "dp_accounting.pld.pld_privacy_accountant", "httpx", "jinja2", "mpmath", "ot",
    "PIL.Image", "pydantic", "requests", "scipy.fft", "scipy.integrate", "scipy.signal", "scipy.spatial",
    "sklearn.datasets", "sklearn.ensemble", "sklearn.metrics", "sklearn.neural_network", "torch.export",
    "privot.federation",
)  # fmt: skip
"""What processes of pytest load besides: nothing that starts threads, which a fork would lose (Arrow, Dask, gRPC)."""

_ADDRESS = "PRIVOT_TESTS_ADDRESS"
"""Where the process that all others fork from listens: a socket's file."""


class Process:
    """One started process: what `subprocess.Popen` offers, as far as tests need it; output is kept in files."""

    def __init__(self, arguments: list[str], cwd: Path | None = None, preloaded: tuple[str, ...] = _PRELOADED) -> None:
        """`arguments` as for Python: -m privot …, -c CODE …, or FILE …; the environment is that of this process."""
        self.args, self.returncode, self._preloaded = arguments, None, preloaded
        self._kept = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115
        request = {"arguments": arguments, "cwd": str(cwd or Path.cwd()), "environment": dict(os.environ)}
        self.pid = int(_ask(request, [kept.fileno() for kept in self._kept], preloaded))

    def poll(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        if self.returncode is None:
            self.returncode = _ask({"wait": self.pid}, [], self._preloaded)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float = 300.0) -> int:
        """The exit code; a process that takes longer is killed, and that is an error."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(0.005)
        return int(self.returncode or 0)

    def communicate(self, timeout: float = 300.0) -> tuple[str, str]:
        """Wait; (standard output, standard error)."""
        self.wait(timeout)
        said = []
        for kept in self._kept:
            kept.seek(0)
            said.append(kept.read())
            kept.close()
        return said[0], said[1]


def run(arguments: list[str], cwd: Path | None = None, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
    """Start a process, wait for its end, and give back what it said."""
    process = Process(arguments, cwd)
    out, err = process.communicate(timeout)
    return subprocess.CompletedProcess(arguments, int(process.returncode or 0), out, err)


def hear_interrupts() -> None:
    """Before a program begins (`preexec_fn`): SIGINT ends it, also where the tests run in the background.

    A shell that starts the tests in the background, and nohup, let them ignore interrupts, and what they start with
    them; tests mean a process in the foreground.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


_line: dict[tuple[int, tuple[str, ...]], socket.socket] = {}


def _ask(request: dict[str, Any], files: list[int], preloaded: tuple[str, ...]) -> Any:
    line = _line.get((os.getpid(), preloaded)) or _start(preloaded)
    data = json.dumps(request).encode()
    socket.send_fds(line, [len(data).to_bytes(8, "big")], files)
    line.sendall(data)
    answer = line.makefile("rb", buffering=0).readline()
    if not answer:
        raise RuntimeError("The process that is forked has ended.")
    return json.loads(answer)


def _start(preloaded: tuple[str, ...]) -> socket.socket:
    if (address := os.environ.get(_ADDRESS)) and set(preloaded) <= set(_TESTED):
        line = socket.socket(socket.AF_UNIX)
        line.connect(address)
        _line[os.getpid(), preloaded] = line
        return line
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(theirs.fileno()), *preloaded]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment)
    theirs.close()
    _line[os.getpid(), preloaded] = ours

    def end() -> None:
        ours.close()
        process.wait(10)

    atexit.register(end)
    return ours


def serve(folder: str) -> str:
    """Start the process that processes of pytest are forked from; its address. It ends with the one that starts it."""
    address = f"{folder}/warm"
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "listen", address, str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment)
    theirs.close()
    if not ours.recv(1):
        raise RuntimeError("The process that tests are forked from did not start.")

    def end() -> None:
        ours.close()
        process.wait(10)

    atexit.register(end)
    return address


def _listen(address: str, starter: socket.socket) -> socket.socket | None:
    """Fork for every process that connects; comes back with its line in a fork, and with nothing in the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the process that started it
    door = socket.socket(socket.AF_UNIX)
    door.bind(address)
    door.listen()
    starter.sendall(b"1")
    while True:
        heard, _, _ = select.select([door, starter], [], [], 5.0)
        while _ended():
            pass
        if starter in heard:
            return None
        if door in heard:
            line, _ = door.accept()
            if os.fork() == 0:
                door.close()
                starter.close()
                return line
            line.close()


def _ended() -> int:
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return 0


def _be_forked(address: str, arguments: list[str]) -> int:
    """Stand for a fork: it has the input and the output of this process, which ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the fork hears it, and ends this process
    os.environ[_ADDRESS] = address
    line = _start(_TESTED)
    request = {"arguments": arguments, "cwd": str(Path.cwd()), "environment": dict(os.environ), "of_pytest": True}
    pid = _ask(request, [0, 1, 2], _TESTED)
    while (code := _ask({"wait": pid}, [], _TESTED)) is None:
        time.sleep(0.2)
    line.close()
    return int(code)


def _serve(line: socket.socket) -> dict[str, Any] | None:
    """Fork for every request; comes back with the request in a fork, and with nothing when nobody asks any more."""
    while True:
        head, files, _, _ = socket.recv_fds(line, 8, 3)
        if not head:
            return None
        size, data = int.from_bytes(head, "big"), b""
        while len(data) < size:
            data += line.recv(size - len(data))
        request: dict[str, Any] = json.loads(data)
        if "wait" in request:
            done, status = os.waitpid(request["wait"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if done else None
        else:
            answer = os.fork()
            if answer == 0:
                line.close()
                for file, number in zip(files, (0, 1, 2) if len(files) == 3 else (1, 2), strict=True):
                    os.dup2(file, number)
            for file in files:
                os.close(file)
            if answer == 0:
                return request
        line.sendall(json.dumps(answer).encode() + b"\n")


def _main() -> None:
    first, *rest = sys.argv[1:]
    if first != "listen" and not first.isdigit():
        sys.exit(_be_forked(first, [word for word in rest if word not in ("-u", "-B")]))
    # scikit-learn imports it where it is installed, and with it Arrow, which starts a thread
    sys.modules["pandas"] = None  # type: ignore[assignment]
    for name in _TESTED if first == "listen" else rest:
        importlib.import_module(name)
    # what is forked may import it
    del sys.modules["pandas"]
    gc.freeze()
    threads = Path("/proc/self/task")
    if threads.exists() and len(list(threads.iterdir())) > 1:
        sys.exit("A module that is loaded before forking has started a thread, which forks would not have.")
    if first == "listen":
        line = _listen(rest[0], socket.socket(fileno=int(rest[1])))
    else:
        line = socket.socket(fileno=int(first))
    request = None if line is None else _serve(line)
    if request is None:
        os._exit(0)
    if "of_pytest" not in request:
        # as in conftest.py: jobs write short tables
        importlib.import_module("privot.guarantee").TABLE_DELTAS = (1e-10, 1e-6, 1e-3, 0.5)  # type: ignore[attr-defined]
    code = 1
    try:
        code = _run(request)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
        traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    finally:
        # what Python does at its end, but for taking every module apart, which costs a fork more than its start
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run(request: dict[str, Any]) -> int:
    """Do what `python ARGUMENTS` does; the exit code."""
    hear_interrupts()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"], OMP_NUM_THREADS="1")
    tempfile.tempdir = None
    first, *rest = request["arguments"]
    if first == "-m":
        sys.path[0] = request["cwd"]
        sys.argv = rest
        code: Callable[[], Any] = partial(runpy.run_module, rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *rest[1:]]
        code = partial(exec, compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = str(Path(first).parent)
        sys.argv = [first, *rest]
        code = partial(runpy.run_path, first, run_name="__main__")
    try:
        code()
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


if __name__ == "__main__":
    _main()
