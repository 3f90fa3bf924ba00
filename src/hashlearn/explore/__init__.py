"""The map of a collection: its rows as points in the plane, clusters with names; and views for notebooks.

The names are imported at their first use: a search refers to this package, and most searches never draw a map.
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
