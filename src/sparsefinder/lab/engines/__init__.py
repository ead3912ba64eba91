"""Where the work of a run is done: by processes of this machine, or as tasks of a Ray cluster."""

from .jobs import Job, JobError, run_jobs, shares

__all__ = ["Job", "JobError", "run_jobs", "shares"]
