"""What is shown of errors that nobody caught, in scripts and in notebooks."""
