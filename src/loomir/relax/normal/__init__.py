"""Normal form: how programs come into it, and the engine of passes that keep it."""
