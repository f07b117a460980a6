"""The default schedule: loops chosen by rules, from formulas and the machine, without search."""
