"""NumPy's way to do what matmul.tc does."""

import numpy as np

SIZES = {"M": 40, "K": 24, "N": 50, "B": 3}


def matmul_reference(A, B, C):
    return A.astype(np.float64) @ B


def matvec_reference(A, x, y):
    return A.astype(np.float64) @ x


def batched_reference(X, Y, Z):
    return X.astype(np.float64) @ Y


def transposed_reference(A, B, C):
    return A.T.astype(np.float64) @ B.T
