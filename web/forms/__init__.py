"""The console's forms, one module for each part of the console.

A form says which fields there are, how they are labelled and what text they take. What a value must be is a rule of the
actions: the form asks them, or shows what they refuse at the field that they name.
"""
