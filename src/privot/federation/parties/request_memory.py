"""A party's record of accepted requests, on disk before it acts, so that replays and restarts change nothing.

It holds digests, times and keys of requests; it never sees a record or an answer.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from privot.errors import DataError, PolicyError
from privot.federation.coordination.requests import Request
from privot.opening import parse_json, read_text


class Memory:
    """A file of accepted requests, one JSON object per line; a repeated request is not new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[tuple[str, str, int], str] = {}
        self._times: list[tuple[float, str, str]] = []
        if path.exists():
            text = read_text(path, inside=path.parent)
            # a line cut short by a crash was never acted upon
            whole = text[: text.rfind("\n") + 1]
            if whole != text:
                with path.open("r+b") as file:
                    file.truncate(len(whole.encode()))
                    os.fsync(file.fileno())
            for line in whole.splitlines():
                self._keep(line)

    def _keep(self, line: str) -> None:
        try:
            entry = parse_json(line)
            self._known[entry["asker"], entry["job"], entry["number"]] = entry["digest"]
            self._times.append((float(entry["at"]), entry["asker"], entry["protocol"]))
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{self._path} was changed by another program: restore it from a backup.") from None

    def is_new(self, request: Request, asker: str, digest: str) -> bool:
        """Whether this request is new; raises `PolicyError` if another one came under the same job and number."""
        found = self._known.get((asker, request.job, request.number))
        if found is not None and found != digest:
            raise PolicyError("Another request had the same job and number: each number is used once.")
        return found is None

    def earlier(self, protocol: str, asker: str, days: float) -> int:
        """The number of requests for `protocol` accepted from `asker` in the last `days`."""
        since = time.time() - 86400.0 * days
        return sum(at >= since and who == asker and what == protocol for at, who, what in self._times)

    def accept(self, request: Request, asker: str, digest: str) -> None:
        """Write the request down; on disk when this returns."""
        entry = {
            "at": time.time(),
            "asker": asker,
            "job": request.job,
            "number": request.number,
            "protocol": request.protocol,
            "digest": digest,
        }
        line = json.dumps(entry, sort_keys=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._keep(line)
