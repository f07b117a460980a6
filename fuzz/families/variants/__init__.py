"""Programs in forms that rules rewrite to known ones: zero points, guarded reads, distances."""
