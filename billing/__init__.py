"""Django app: price books, invoices, credits, budgets and payments."""
