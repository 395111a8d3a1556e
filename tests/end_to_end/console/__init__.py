"""The console in a real browser, over real processes: brokers, the web process and its worker."""
