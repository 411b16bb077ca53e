"""Arrays and tensors as the files that the program reads. PyTorch is not imported: a tensor is
whatever has `detach()` and `cpu()`.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Optional

import numpy as np

from .program import RingscopeError


def to_numpy(array: Any) -> np.ndarray:
    """Return an array, tensor or nested list as a NumPy array of the same shape.

    bf16, which NumPy lacks, comes as its bits in uint16, as the program reads it.
    Throws RingscopeError for anything else.
    """
    if hasattr(array, "detach") and hasattr(array, "cpu"):
        array = array.detach().cpu()
        if "bfloat16" in str(array.dtype):
            # f32 holds every bf16, with zeros in its lower half.
            return (np.ascontiguousarray(array.float().numpy()).view(np.uint32) >> 16).astype(
                np.uint16
            )
        array = array.numpy()
    made = np.ascontiguousarray(array)
    if made.dtype.hasobject:
        kind = type(array).__name__
        raise RingscopeError(f"'{kind}' given; accepted: an array, a tensor or a path", 2)
    return made.view(np.uint16) if made.dtype.name == "bfloat16" else made  # of ml_dtypes


class Files(tempfile.TemporaryDirectory):  # type: ignore[type-arg]
    """A folder that arrays are written to, which goes away at the end of the `with`."""

    def __enter__(self) -> Files:
        return self

    @property
    def folder(self) -> Path:
        return Path(self.name)

    def path(self, name: str, value: Any) -> Optional[str]:
        """Return the path of a tensor: `value` itself where it is one, else that of the file
        NAME.npy, which this writes. None stays None.
        """
        if value is None or isinstance(value, (str, os.PathLike)):
            return None if value is None else os.fspath(value)
        file = self.folder / f"{name}.npy"
        np.save(file, to_numpy(value))
        return str(file)

    def partition(self, value: Any) -> Optional[str]:
        """Return what --partition takes: a name, or for an array with the rank of each position its
        file.
        """
        if value is None or isinstance(value, str):
            return value
        file = self.path("partition", np.asarray(to_numpy(value), dtype=np.int64))
        return f"file:{file}"
