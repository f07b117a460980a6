"""NumPy's way to do what norm.tc does."""

import numpy as np

SIZES = {"N": 8, "D": 60, "C": 5, "H": 9, "W": 7}


def moments_reference(X, mean, variance):
    X = X.astype(np.float64)
    return X.mean(axis=1), X.var(axis=1)


def layer_norm_reference(X, scale, shift, Y):
    X = X.astype(np.float64)
    centred = X - X.mean(axis=1, keepdims=True)
    return centred / np.sqrt(X.var(axis=1, keepdims=True) + 1e-5) * scale + shift


def batch_norm_reference(X, running, Y):
    X = X.astype(np.float64)
    mean, variance = (f(X, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.var))
    return 0.9 * running + 0.1 * mean.ravel(), (X - mean) / np.sqrt(variance + 1e-5)
