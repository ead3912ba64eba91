"""The two tasks of the paper: masked language modelling and translation."""
