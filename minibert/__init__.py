"""A BERT text classifier written by hand in plain PyTorch: see README.md for the reading order."""

__version__ = "0.1.0"

_HOME = {"load_encoder": "convert", "load_classifier": "convert", "load_tokenizer": "tokenization", "Predictor": "predictor"}
__all__ = ["Predictor", "load_classifier", "load_encoder", "load_tokenizer"]


def __getattr__(name: str):
    """Import a public name's room on first use, so that `import minibert` itself costs next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'minibert' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
