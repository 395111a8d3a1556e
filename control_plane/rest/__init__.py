"""REST v1: who calls, what each address answers, and what shape it has. Apps know nothing of it."""
