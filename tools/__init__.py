"""Tools of those who change Loomir: none is part of the package, none is needed to use it."""
