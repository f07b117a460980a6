"""Rules that several families of operators share, and how they refuse arguments."""
