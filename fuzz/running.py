"""Runs cases, each in a forked process and a folder of its own, with limits on time and memory; no case sees another.

The parent imports privot once, so that a case costs milliseconds. What a case would write outside its folder is
noted by an audit hook, and refused.
"""

from __future__ import annotations

import errno
import faulthandler
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.calls import call
from fuzz.case import Case

MAX_SECONDS = 60.0
MAX_BYTES = 2 << 30
limits = {"seconds": MAX_SECONDS}
"""What is enforced."""
_GRACE = 1 << 30
"""A process may ask for so much above the limit before the system refuses: what it reached is then seen."""


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    case: Case
    folder: Path
    code: int
    seconds: float
    peak: int
    out: str
    err: str
    written: str
    """Paths outside the case's folder that it opened for writing, or files of `in` that it changed."""
    unforeseen: str
    """The traceback of an error that ended in exit code 1."""
    mutation: str = ""
    """What was done to the input."""


def run_all(
    cases: Iterable[Case], kit: Path, work: Path, jobs: int, keep: Callable[[Outcome], bool]
) -> Iterator[Outcome]:
    """Outcomes as they come; folders of cases that `keep` does not want are removed."""
    running: dict[int, tuple[Case, Path, float, dict[str, Any]]] = {}
    waiting = iter(cases)
    more = True
    while more or running:
        while more and len(running) < jobs:
            case = next(waiting, None)
            if case is None:
                more = False
                break
            folder = work / case.name.replace(":", "-")
            folder.mkdir(parents=True)
            case.prepare(kit, folder)
            before = _state(folder / "in")
            running[_start(case, folder)] = (case, folder, time.monotonic(), before)
        ended = _wait(running)
        if ended is None:
            continue
        pid, status, peak, waited = ended
        case, folder, began, before = running.pop(pid)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        outcome = Outcome(
            case, folder, code, _ended(folder) - began - waited, peak,
            _read(folder / "stdout"), _read(folder / "stderr"),
            _read(folder / "written") + _changed(before, _state(folder / "in")), _read(folder / "traceback"),
            _read(folder / "mutation"),
        )  # fmt: skip
        if not keep(outcome):
            _remove(folder)
        yield outcome


def _wait(running: dict[int, tuple[Case, Path, float, dict[str, Any]]]) -> tuple[int, int, int, float] | None:
    """(process, status, peak memory, seconds it waited for a core) of one that ended."""
    for pid, (_, _, began, _) in running.items():
        waited = _waited(pid)
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            waited = max(waited, _waited(pid))
            _, status, usage = os.wait4(pid, 0)
            return pid, status, usage.ru_maxrss * 1024, waited
        if time.monotonic() - began - waited > limits["seconds"]:
            os.kill(pid, signal.SIGUSR1)  # where it is goes to the file `stack`
            time.sleep(0.5)
            os.killpg(pid, signal.SIGKILL)
    time.sleep(0.002)
    return None


def _waited(pid: int) -> float:
    """How long a process was ready to run and had no core: on a busy machine that is no fault of its own."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _ended(folder: Path) -> float:
    """When a case came to its end, by its own word: this process may have been busy with the next one since then."""
    try:
        return float((folder / "ended").read_text())
    except (OSError, ValueError):
        return time.monotonic()


def _start(case: Case, folder: Path) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = _child(case, folder)
        except BaseException:
            (folder / "traceback").write_text(traceback.format_exc())
        finally:
            (folder / "ended").write_text(str(time.monotonic()))
            os._exit(code)
    return pid


def _child(case: Case, folder: Path) -> int:
    os.setsid()
    os.chdir(folder)
    for name, number in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.umask(0o022)
    faulthandler.register(signal.SIGUSR1, os.open("stack", os.O_WRONLY | os.O_CREAT, 0o600))
    Path("tmp").mkdir()
    os.environ.update(TMPDIR=str(folder / "tmp"), HOME=str(folder / "tmp"))
    import tempfile

    tempfile.tempdir = None
    # what is anonymous and private counts, whatever files are mapped
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES + _GRACE, MAX_BYTES + _GRACE))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # what is imported late would be compiled into its own folder, which is not the case's doing
    sys.dont_write_bytecode = True
    warnings.resetwarnings()
    warnings.simplefilter("default")
    sys.addaudithook(_watch(folder))
    sys.argv = ["privot", *case.arguments]
    try:
        code = _called(case)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def _called(case: Case) -> int:
    from privot import cli
    from privot.cli.printing import unforeseen

    said = unforeseen.unforeseen

    def noted(error: Exception) -> str:
        Path("traceback").write_text("".join(traceback.format_exception(error)))
        return said(error)

    unforeseen.unforeseen = noted
    if case.arguments[0].startswith("@"):
        warnings.simplefilter("ignore")
        return call(case.arguments)
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def _watch(folder: Path) -> Callable[[str, tuple[Any, ...]], None]:
    """Notes what is opened for writing, made, renamed or removed outside `folder`, and keeps it from happening."""
    root = str(folder.resolve())
    cache = os.environ.get("MPLCONFIGDIR", root)
    note = os.open("written", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        paths: list[Any] = []
        if event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            paths = [path] if writes and not isinstance(path, int) else []
        elif event == "os.mkdir" and os.path.exists(arguments[0]):
            # asked for in any case: nothing is made where something is
            return
        elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod"):
            paths = [arguments[0]]
        elif event in ("os.rename", "os.link", "os.symlink"):
            paths = list(arguments[:2]) if event == "os.rename" else [arguments[1]]
        for path in paths:
            if isinstance(path, int) or path is None:
                continue
            real = os.fsdecode(path)
            if event in ("open", "os.mkdir", "os.truncate", "os.chmod"):
                real = os.path.realpath(real)
            else:
                # these change a name, not the file that a link of that name leads to
                real = os.path.join(os.path.realpath(os.path.dirname(real) or "."), os.path.basename(real))
            # nothing can be made in the system's own folders
            if not f"{real}/".startswith((root, cache, "/dev/null", "/dev/full", "/proc/", "/sys/")):
                os.write(note, f"{event} {real!r}\n".encode())
                # a case may run as an administrator, to whom nothing else says no
                raise PermissionError(errno.EACCES, "the fuzzer keeps cases in their folder", real)

    return hook


def _state(folder: Path) -> dict[str, Any]:
    """Names, sizes and times of what lies in `folder`; ledgers, and what is kept beside them, may change."""
    found: dict[str, Any] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if ".ledger" not in name and not name.startswith(("party", "hub"))]
        for name in files:
            if ".ledger" not in name:
                path = os.path.join(place, name)
                held = os.lstat(path)
                found[os.path.relpath(path, folder)] = (held.st_size, held.st_mtime_ns, held.st_mode)
    return found


def _changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    differ = [name for name in before if name not in after or before[name] != after[name]]
    return "".join(f"changed in/{name}\n" for name in differ)


def _read(path: Path) -> str:
    try:
        return path.read_bytes()[:200_000].decode("utf-8", "replace")
    except OSError:
        return ""


def _remove(folder: Path) -> None:
    for place, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
