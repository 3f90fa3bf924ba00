"""Save and load models: a hasher, a pipeline that ends in a hasher, a similarity search."""

from pathlib import Path
from typing import Any

from hashlearn.hashers.saving import load_hasher, save_hasher
from hashlearn.search.folder import OLD_MANIFEST, SearchFolder
from hashlearn.search.similarity import SimilaritySearch


def save(model: Any, folder: str | Path) -> None:
    """Write a fitted hasher, a scikit-learn pipeline that ends in one, or a similarity search to a folder.

    Parameters
    ----------
    model : Hasher, sklearn.pipeline.Pipeline or SimilaritySearch
        A pipeline may have Normalizer, StandardScaler, MinMaxScaler, MaxAbsScaler, PCA and TruncatedSVD before the
        hasher.
    folder : str or Path
        New, empty, or saved by this function before; its parent exists.

    Examples
    --------
    >>> import tempfile
    >>> from hashlearn import ITQ
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer
    >>> X, _ = load_digits(return_X_y=True)
    >>> pipeline = make_pipeline(Normalizer(), ITQ(n_bits=16, random_state=0)).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(pipeline, folder)
    ...     codes = load(folder).transform(X)
    >>> (codes == pipeline.transform(X)).all()
    np.True_
    """
    if isinstance(model, SimilaritySearch):
        model.save(folder)
    else:
        save_hasher(model, folder)


def load(folder: str | Path) -> Any:
    """Open a saved folder: a hasher, a pipeline or a :class:`SimilaritySearch`.

    Nothing is unpickled: no code is run from the files.

    Parameters
    ----------
    folder : str or Path
        What :func:`save`, or the ``save`` of a hasher or a search, wrote.

    Returns
    -------
    Hasher, sklearn.pipeline.Pipeline or SimilaritySearch
        As it was saved.

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    ValueError
        hashlearn did not save this folder, or the folder is truncated, edited or of a newer version.

    Examples
    --------
    >>> from hashlearn import ITQ
    >>> from sklearn.datasets import load_digits
    >>> X, _ = load_digits(return_X_y=True)
    >>> folder = getfixture("tmp_path") / "model"  # any folder
    >>> ITQ(n_bits=16, random_state=0).fit(X).save(folder)
    >>> load(folder).n_bits
    16
    """
    if SearchFolder(folder).is_search or (Path(folder) / OLD_MANIFEST).is_file():
        return SimilaritySearch.open(folder)
    return load_hasher(folder)
