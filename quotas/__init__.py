"""Django app: plans, limits, overrides and the enforcement settings of budgets."""
