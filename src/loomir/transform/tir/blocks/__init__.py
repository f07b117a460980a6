"""Passes that lower blocks to loops and statements."""
