"""Arrays and tensors as the files that the program reads. PyTorch is not imported: a tensor is
whatever has `detach()` and `cpu()`.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any, Optional

import numpy as np

from .program import RingscopeError, path_of

# What the program calls the dtypes that it reads. NumPy has the bits of bf16 in uint16, or void16.
DTYPES = {
    "float64": "f32",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "uint16": "bf16",
    "void16": "bf16",
}
VALUES = (
    "an array, a tensor or a path, of f64, f32, f16 or bf16 (of a DTensor: full_tensor(), or "
    "to_local() in check_sharded)"
)


def to_numpy(name: str, value: Any) -> np.ndarray:
    """Return an array, tensor or nested list as a NumPy array of the same shape.

    bf16, which NumPy lacks, comes as its bits in uint16, as the program reads it.
    Throws RingscopeError, which begins with `name`, for anything else.
    """
    array = _on_host(name, value, VALUES)
    dtype = _dtype_of(value) or _dtype_of(array)
    if dtype not in DTYPES:
        raise _refused(name, value, dtype, VALUES)
    if DTYPES[dtype] != "bf16":
        return array
    # f32 holds every bf16, with zeros in its lower half.
    is_f32 = array.dtype.itemsize == 4
    return (array.view(np.uint32) >> 16).astype(np.uint16) if is_f32 else array.view(np.uint16)


def to_integers(name: str, value: Any) -> np.ndarray:
    """Return an array, tensor or list of integers as int64. Throws RingscopeError for others."""
    array = _on_host(name, value, "integers")
    dtype = _dtype_of(value) or _dtype_of(array)
    if not dtype.startswith(("int", "uint")):
        raise _refused(name, value, dtype, "integers")
    return array.astype(np.int64)


def stored_dtype(*arrays: Any) -> Optional[str]:
    """Return the program's name for the dtype of the first array that is given.

    None for what may have been converted from another one: a path, a list, or f32 and f64 of NumPy,
    which has no bf16.
    """
    first = next((one for one in arrays if one is not None), None)
    dtype = DTYPES.get(_dtype_of(first))
    return dtype if dtype != "f32" or _is_tensor(first) else None


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "cpu")


def _dtype_of(value: Any) -> str:
    """Return the name of a dtype of NumPy or PyTorch, or "" for what has none."""
    dtype = getattr(value, "dtype", "")
    return str(getattr(dtype, "name", dtype)).rpartition(".")[2]


def _on_host(name: str, value: Any, accepted: str) -> np.ndarray:
    """Return the values as NumPy has them, bf16 of PyTorch as f32."""
    array = value
    try:
        if _is_tensor(value):
            array = value.detach().cpu()
            array = (array.float() if _dtype_of(value) == "bfloat16" else array).numpy()
        array = np.ascontiguousarray(array)
    except Exception:  # whatever a subclass throws that has no values here
        raise _refused(name, value, _dtype_of(value), accepted) from None
    if array.dtype.hasobject:
        raise _refused(name, value, "", accepted)
    return array


def _refused(name: str, value: Any, dtype: str, accepted: str) -> RingscopeError:
    place = str(getattr(value, "device", "")) if _is_tensor(value) else ""
    about = ", ".join(word for word in (dtype, place) if word)
    kind = f"'{type(value).__name__}'" + (f" ({about})" if about else "")
    return RingscopeError(f"{name}: {kind} given; accepted: {accepted}", 2)


class Files(tempfile.TemporaryDirectory):  # type: ignore[type-arg]
    """A folder that arrays are written to, which goes away at the end of the `with`. What the
    program says of its files is said of the arguments that they hold.
    """

    def __init__(self) -> None:
        # The program reads {r} as a rank's number, and .safetensors:NAME as a tensor in a file.
        named = tempfile.gettempdir()
        is_safe = "{r}" not in named and ".safetensors" not in named
        try:
            super().__init__(dir=None if is_safe else "/tmp")
        except OSError as error:
            raise RingscopeError(f"no folder for temporary files: {error}", 3) from None

    def __enter__(self) -> Files:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        if isinstance(error, RingscopeError):
            file = rf"{re.escape(self.name)}/([\w.{{}}]+)\.npy"
            line = re.sub(rf"(?:--[a-z-]+ )?'?(?:file:)?{file}'?", r"\1", error.line)
            raise RingscopeError(line, error.status) from None

    @property
    def folder(self) -> Path:
        return Path(self.name)

    def path(self, name: str, value: Any) -> Optional[str]:
        """Return the path of a tensor: `value` itself where it is one, else that of the file
        NAME.npy, which this writes. None stays None.
        """
        if value is None or isinstance(value, (str, os.PathLike)):
            return None if value is None else path_of(value)
        return self._written(name, to_numpy(name, value))

    def integers(self, name: str, value: Any) -> Optional[str]:
        """Return the same of integers."""
        if value is None or isinstance(value, (str, os.PathLike)):
            return self.path(name, value)
        return self._written(name, to_integers(name, value))

    def partition(self, value: Any, name: str = "partition") -> Optional[str]:
        """Return what --partition takes: a name, or for an array with the rank of each position its
        file.
        """
        if value is None or isinstance(value, str):
            return value
        return f"file:{self.integers(name, value)}"

    def _written(self, name: str, array: np.ndarray) -> str:
        file = self.folder / f"{name}.npy"
        try:
            np.save(file, array)
        except OSError as error:
            raise RingscopeError(f"{name}: {error}", 3) from None
        return str(file)
