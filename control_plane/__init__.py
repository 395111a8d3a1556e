"""The control plane: desired state in Django, delivered to the data plane and reconciled with it all the time."""
