"""Numbers for the page: typed arrays as base64, larger ones deflated; and JSON that no text can break out of."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any, Literal

import numpy as np

__all__ = ["column", "deflated", "safe_json"]

# `<` could end the script element that the JSON stands in; line separators end lines in old parsers; a lone surrogate
# cannot be written as UTF-8.
ESCAPED = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def column(values: Any, kind: Literal["u1", "u2", "u4", "f4"]) -> dict[str, str]:
    """An array as {"kind", "data"}, little-endian as the typed arrays of every browser are."""
    array = np.ascontiguousarray(values, dtype="<" + kind)
    return {"kind": kind, "data": base64.b64encode(array.tobytes()).decode()}


def deflated(content: bytes) -> str:
    """Bytes as `DecompressionStream("deflate")` takes them."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def safe_json(value: Any) -> str:
    """JSON that can stand in a script element, whatever text is in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
