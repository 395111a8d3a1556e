"""REST calls to the control plane: one blocking client, problem documents as Penstock's errors."""
