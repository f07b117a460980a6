"""Transposed convolutions, computed as ordinary convolutions by polyphase decomposition."""
