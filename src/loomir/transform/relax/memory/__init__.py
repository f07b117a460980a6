"""Memory: aliases, lifetimes, updates in place, and one arena for all temporaries."""
