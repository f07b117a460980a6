"""Tools for developers of Loomir; they are not part of the package."""
