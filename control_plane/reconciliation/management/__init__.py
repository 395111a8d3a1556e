"""Commands of the control plane."""
