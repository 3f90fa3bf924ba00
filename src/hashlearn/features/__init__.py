"""Images and texts to vectors: GIST, principal components, encoders of pictures and texts by name."""

from hashlearn.features.encoders import ENCODER_FILE, Encoder, as_encoder, encoder_named, load_encoder, save_encoder
from hashlearn.features.gist import gist
from hashlearn.features.images import ImageFolder
from hashlearn.features.own_files import EncodedImages, TextTable, folder_of_images, texts_of_csv
from hashlearn.features.pca import PCA

__all__ = [
    "ENCODER_FILE",
    "PCA",
    "EncodedImages",
    "Encoder",
    "ImageFolder",
    "TextTable",
    "as_encoder",
    "encoder_named",
    "folder_of_images",
    "gist",
    "load_encoder",
    "save_encoder",
    "texts_of_csv",
]
