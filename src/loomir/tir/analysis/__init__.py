"""Questions about programs that passes and checks share: accesses, effects, cost, ranges."""
