"""Queries and keys of a teacher's attention layers: in memory as records, on disk as traces."""

from .record import Record
from .store import Samples, Site, Traces
from .writer import TraceWriter, join

__all__ = ["Record", "Samples", "Site", "TraceWriter", "Traces", "join"]
