"""Benchmarks of a teacher: quality and time of every finder, beside full entmax and softmax attention."""
