"""What a collection is about: a map of its rows in the plane, clusters and their names."""

from hashlearn.explore.map import MAP_FILE, SIDE, Cluster, CollectionMap, kept_map, map_of

__all__ = ["MAP_FILE", "SIDE", "Cluster", "CollectionMap", "kept_map", "map_of"]
