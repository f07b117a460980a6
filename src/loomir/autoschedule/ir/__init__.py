"""The data of scheduling: what stages compute, and what a plan decides."""
