"""What turns raw things into vectors: GIST of images, principal components of long vectors."""

from hashlearn.features.gist import gist
from hashlearn.features.images import ImageFolder
from hashlearn.features.pca import PCA

__all__ = ["PCA", "ImageFolder", "gist"]
