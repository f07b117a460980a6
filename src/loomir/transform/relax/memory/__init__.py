"""Memory: aliases, lifetimes, in-place updates, and an arena for all temporaries."""
