"""Runs: from text to a report, by recipe."""
