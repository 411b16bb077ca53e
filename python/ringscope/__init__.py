"""Ringscope from Python: is my context parallelism right, what is right, where does its time go,
what would it cost?

Everything is computed by the program `ringscope`, which these functions find and run; its flags are
their keyword arguments, so `world_size=8` is `--world-size 8`. NumPy suffices. PyTorch is needed
only where processes meet (`check_sharded`) or are profiled (`record`, `attention`).
"""

from . import testing
from .checks import Verdict, check, check_sharded
from .plans import Rows, plan, positions, simulate
from .program import RingscopeError, RingscopeWarning, program
from .runs import Run, run
from .traces import attention, explain, record, show

__version__ = "0.1.0"
__all__ = [
    "RingscopeError",
    "RingscopeWarning",
    "Rows",
    "Run",
    "Verdict",
    "attention",
    "check",
    "check_sharded",
    "explain",
    "plan",
    "positions",
    "program",
    "record",
    "run",
    "show",
    "simulate",
    "testing",
]
