"""Programs that say in another way what rules know: zero points, guarded reads, distances."""
