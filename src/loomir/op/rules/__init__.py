"""What the rules of several families of operators ask of arguments, and how they refuse them."""
