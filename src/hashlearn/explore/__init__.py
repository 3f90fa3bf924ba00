"""What a collection is about: a map of its rows in the plane, clusters and their names; and how a notebook shows it.

The names are imported when they are first asked for: a search knows this room, and most never draw a map.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "clusters": ["cluster_color"],
        "map": ["MAP_FILE", "SIDE", "CollectionMap", "MapCluster", "copy_map", "kept_map", "map_of"],
        "notebook": ["ShownNeighbors", "shown_neighbors"],
    },
)
