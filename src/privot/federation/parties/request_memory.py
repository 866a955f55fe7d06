"""What a party remembers of requests, on disk before it acts: replays change nothing, and limits survive a restart."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from privot.errors import DataError, PolicyError
from privot.federation.coordination.requests import Request
from privot.opening import parse_json, read_text


class Memory:
    """A file of accepted requests, one JSON object a line; the same request again is no new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[tuple[str, str, int], str] = {}
        self._times: list[tuple[float, str, str]] = []
        if path.exists():
            text = read_text(path, inside=path.parent)
            # a line that a crash cut short was never acted upon
            whole = text[: text.rfind("\n") + 1]
            if whole != text:
                with path.open("r+b") as file:
                    file.truncate(len(whole.encode()))
                    os.fsync(file.fileno())
            for line in whole.splitlines():
                self._keep(line)

    def _keep(self, line: str) -> None:
        try:
            said = parse_json(line)
            self._known[said["asker"], said["job"], said["number"]] = said["digest"]
            self._times.append((float(said["at"]), said["asker"], said["protocol"]))
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{self._path} was changed by somebody else: restore it from a backup.") from None

    def is_new(self, request: Request, asker: str, digest: str) -> bool:
        """Whether this request was never accepted; another one under the same job and number is refused."""
        found = self._known.get((asker, request.job, request.number))
        if found is not None and found != digest:
            raise PolicyError("Another request came under the same job and number: a number is used once.")
        return found is None

    def earlier(self, protocol: str, asker: str, days: float) -> int:
        """How many requests for `protocol` were accepted of `asker` in the last `days`."""
        since = time.time() - 86400.0 * days
        return sum(at >= since and who == asker and what == protocol for at, who, what in self._times)

    def accept(self, request: Request, asker: str, digest: str) -> None:
        """Write the request down; on disk when this returns."""
        said = {
            "at": time.time(),
            "asker": asker,
            "job": request.job,
            "number": request.number,
            "protocol": request.protocol,
            "digest": digest,
        }
        line = json.dumps(said, sort_keys=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._keep(line)
