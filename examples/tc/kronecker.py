"""NumPy's way to do what kronecker.tc does."""

import numpy as np

SIZES = {"D0": 3, "N0": 4, "D1": 5, "N1": 3, "D2": 4, "N2": 6, "M": 7}


def reference(W0, W1, W2, X, Y, XW1, XW2):
    XW2 = np.einsum("mabc,zc->mabz", X.astype(np.float64), W2)
    XW1 = np.einsum("mabz,yb->mayz", XW2, W1)
    return np.einsum("mayz,xa->mxyz", XW1, W0), XW1, XW2
