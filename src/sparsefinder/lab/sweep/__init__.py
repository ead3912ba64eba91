"""From traces to points: settings, fitting, sparsity and recall, sparsity and accuracy, running times."""

from .accuracy import sweep_accuracy
from .fit_stage import fit
from .recall import sweep_recall
from .summary import summary, write_summary
from .timing import sweep_timing

__all__ = ["fit", "summary", "sweep_accuracy", "sweep_recall", "sweep_timing", "write_summary"]
