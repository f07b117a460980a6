"""What the definition of an operator is: parameters, rules, references, values of calls."""
