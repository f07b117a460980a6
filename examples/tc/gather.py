"""Inputs, and NumPy's way to do what gather.tc does."""

SIZES = {"N": 50, "A": 12, "B": 9, "V": 40, "D": 16, "L": 7}


def inputs(rng, **sizes):
    made = {}
    if "N" in sizes:
        made["places"] = rng.integers(0, sizes["N"], (sizes["A"], sizes["B"]), "int32")
    if "V" in sizes:
        made["words"] = rng.integers(0, sizes["V"], (sizes["B"], sizes["L"]), "int64")
    return made


def gather_reference(X, places, Z):
    return X[places]


def embedding_reference(table, words, Y):
    return table.astype("float64")[words].sum(axis=1)
