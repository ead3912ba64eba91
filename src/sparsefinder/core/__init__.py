"""What everything else is made of: the mapping, layouts, graphs, metrics, frontiers. Knows torch and numpy only."""
