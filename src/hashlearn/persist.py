"""A model is a folder: config.json and model.safetensors."""


def save(model, folder):
    raise OSError("saving comes with the next change")


def load(folder):
    raise OSError("loading comes with the next change")
