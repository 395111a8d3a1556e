"""Who may ask what, and whose turn it is: the gate, the connections and the fair shares of tenants."""
