"""The C library's allocator, told to keep what is freed: a large temporary otherwise costs a page fault per 4 kB."""

import ctypes
import ctypes.util
from functools import cache

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT = 1 << 30


@cache
def keep_freed_memory() -> bool:
    """Set it once for this process, and return True; False where the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _KEPT)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEPT))
