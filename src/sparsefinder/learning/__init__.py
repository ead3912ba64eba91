"""What finders learn from queries and keys, and the maps that they compare in."""
