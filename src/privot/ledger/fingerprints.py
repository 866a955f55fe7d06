"""A keyed fingerprint of arrays: one name for one data set, against which only the key can test a guess.

HMAC-SHA256 over, for each array in the order of its name: the lengths and texts of name, dtype (little-
endian) and shape, then the values in C order. It is streamed; no array is copied. *The bytes are what
counts*: rows in another order, or float64 in place of float32, are another data set with a budget of its
own, so the caller must bring the records into one fixed form first.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, UsageError

_ITEMS_AT_ONCE = 1 << 16


def fingerprint(key: bytes, arrays: Mapping[str, NDArray[Any]]) -> str:
    """The fingerprint of `arrays`, 64 hexadecimal digits."""
    if not arrays or any(not isinstance(name, str) for name in arrays):
        raise UsageError("A fingerprint is taken of at least one array, each with a name.")
    digest = hmac.new(key, digestmod="sha256")
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        # objects have no bytes of their own; padding in records and long doubles is whatever memory held
        if array.dtype.kind not in "biufcmMSU" or array.dtype.char in "gG":
            raise DataError(f"The array {name!r} has the type {array.dtype}, whose bytes are not fixed: convert it.")
        plain = array.dtype.newbyteorder("<")
        for text in (name, plain.str, ",".join(map(str, array.shape))):
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        blocks = np.nditer(
            array,
            flags=["external_loop", "buffered", "zerosize_ok"],
            op_dtypes=plain,
            order="C",
            casting="equiv",
            buffersize=_ITEMS_AT_ONCE,
        )
        if array.size:
            for block in blocks:
                digest.update(np.ascontiguousarray(block).view(np.uint8).data)
    return digest.hexdigest()
