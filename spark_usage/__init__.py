"""PySpark: usage in; hourly and daily usage, SLA windows and unit costs out. No Django here."""
